// SPDX-License-Identifier: Apache-2.0
// Every rank runs the same cases, under mpirun.
#include "tests/catch.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/checksum.h"
#include "core/engine/collectives.h"
#include "core/engine/process_group_library.h"
#include "core/ranks/identity.h"
#include "core/ranks/mpi_library.h"

namespace trainer {
namespace {

void handle_stop(int /*signal*/) {}

/// The numbers of signals that ask to stop whose handlers MPI's start has replaced.
std::string replaced;

/// For these signals, while it exists.
class StopHandlers {
 public:
  StopHandlers() {
    for (size_t i = 0; i < kSignals.size(); ++i) earlier_[i] = std::signal(kSignals[i], handle_stop);
  }
  ~StopHandlers() {
    for (size_t i = 0; i < kSignals.size(); ++i)
      if (std::signal(kSignals[i], earlier_[i]) != handle_stop) replaced += std::to_string(kSignals[i]) + " ";
  }
  StopHandlers(const StopHandlers&) = delete;
  StopHandlers& operator=(const StopHandlers&) = delete;

 private:
  static constexpr std::array kSignals = {SIGHUP,  SIGINT,  SIGUSR1, SIGUSR2,
                                          SIGALRM, SIGTERM, SIGXCPU, SIGPWR};
  std::array<void (*)(int), kSignals.size()> earlier_{};
};

/// One for the whole process: MPI starts once.
ProcessGroup& group() {
  static const std::unique_ptr<ProcessGroup> only = [] {
    const RankIdentity identity = launched_as();
    const StopHandlers handlers;
    return load_process_group(
        open_mpi_library().plugin(),
        {.rank = identity.rank, .ranks = identity.ranks, .on_lost = [](const auto& text) {
           FAIL_CHECK(text);
           std::_Exit(76);
         }});
  }();
  return *only;
}

Collectives& collectives() {
  return *group().host_collectives();
}

/// Numbers that differ from rank to rank, and whose sum depends on the order.
std::vector<float> numbers_of(int64_t rank, size_t count, int64_t seed) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i)
    numbers[i] =
        static_cast<float>(std::sin(static_cast<double>(i) * 0.7 + static_cast<double>(rank * 31 + seed)));
  return numbers;
}

/// Whether this rank's bytes are those of rank 0.
bool as_on_rank_0(std::span<const float> numbers) {
  uint64_t own = checksum(std::as_bytes(numbers)), first = own;
  group().broadcast(std::as_writable_bytes(std::span(&first, 1)));
  return own == first;
}

}  // namespace

TEST_CASE("rank and size are those of the launcher") {
  const RankIdentity identity = launched_as();
  CHECK(group().rank() == identity.rank);
  CHECK(group().size() == identity.ranks);
}

TEST_CASE("the start of MPI replaces no handler of a signal that asks to stop") {
  group();
  CHECK(replaced == std::string());
}

TEST_CASE("sums of any size are right, and bitwise identical on every rank") {
  for (const size_t count : {1, 2, 3, 17, 1000, 16385, 1000003}) {
    std::vector<float> own = numbers_of(group().rank(), count, 1), other = numbers_of(group().rank(), 5, 2);
    const std::vector<std::span<float>> parts = {own, std::span<float>(), other};
    collectives().start_all_reduce(3, Axis::data, parts);
    collectives().wait(3);
    CHECK(as_on_rank_0(own));
    CHECK(as_on_rank_0(other));
    double worst = 0;
    std::vector<double> expected(count, 0);
    for (int64_t rank = 0; rank < group().size(); ++rank) {
      const std::vector<float> theirs = numbers_of(rank, count, 1);
      for (size_t i = 0; i < count; ++i) expected[i] += theirs[i];
    }
    for (size_t i = 0; i < count; ++i) worst = std::max(worst, std::abs(expected[i] - own[i]));
    CHECK(worst < 1e-6 * static_cast<double>(group().size()));
  }
}

TEST_CASE("several sums run at once, and a bucket is summed again") {
  for (int64_t round = 0; round < 50; ++round) {
    std::vector<std::vector<float>> buckets;
    for (int64_t i = 0; i < 4; ++i) buckets.push_back(numbers_of(group().rank(), 100 + 7 * i, round));
    for (int64_t i = 0; i < 4; ++i) {
      const std::span<float> part = buckets[i];
      collectives().start_all_reduce(i, Axis::data, {&part, 1});
    }
    group().vote(round, {.stop = round == 7 && group().rank() == group().size() - 1});
    for (int64_t i = 3; i >= 0; --i) collectives().wait(i);
    CHECK(group().result(round) == Vote{.stop = round == 7});
    for (const auto& bucket : buckets) CHECK(as_on_rank_0(bucket));
  }
}

TEST_CASE("each rank broadcasts numbers of its own, several at once and beside a sum") {
  for (int64_t round = 0; round < 20; ++round) {
    std::vector<std::vector<float>> sent, more;
    std::vector<float> added = numbers_of(group().rank(), 31, round);
    const std::span<float> sum = added;
    for (int64_t from = 0; from < group().size(); ++from) {
      const auto count = static_cast<size_t>(1 + 1000 * from);
      sent.push_back(numbers_of(group().rank(), count, round));
      more.push_back(numbers_of(group().rank(), 7, round + 5));
    }
    for (int64_t from = 0; from < group().size(); ++from) {
      const auto place = static_cast<size_t>(from);
      const std::vector<std::span<float>> parts = {sent[place], std::span<float>(), more[place]};
      collectives().start_broadcast(from, from, parts);
      if (from == 0) collectives().start_all_reduce(100, Axis::data, {&sum, 1});
    }
    for (int64_t from = 0; from < group().size(); ++from) {
      collectives().wait(from);
      const auto place = static_cast<size_t>(from);
      CHECK(sent[place] == numbers_of(from, sent[place].size(), round));
      CHECK(more[place] == numbers_of(from, 7, round + 5));
    }
    collectives().wait(100);
    CHECK(as_on_rank_0(added));
  }
}

TEST_CASE("parts of any size are gathered, and sums are shared out in parts") {
  const auto ranks = static_cast<size_t>(group().size()), self = static_cast<size_t>(group().rank());
  for (const size_t count : {1, 2, 3, 17, 1000, 16385, 1000003}) {
    for (const size_t spare : {0, 16}) {
      const size_t part =
          (count + ranks - 1) / ranks + spare;  // with spare ones the last ranks may have none
      const std::vector<float> whole = numbers_of(7, count, 1);
      std::vector<float> own(part, 0), gathered(count, -1);
      const std::span<const float> here = part_within(std::span(whole), part, group().rank());
      std::ranges::copy(here, own.begin());
      const Gathered gather{std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(gathered))};
      collectives().start_all_gather(1, Axis::data, {&gather, 1});
      collectives().wait(1);
      CHECK((gathered == whole));  // a million numbers need not be shown
      const std::vector<float> mine = numbers_of(group().rank(), count, 2);
      std::ranges::fill(own, -1.0f);
      const Scattered scatter{own, mine};
      collectives().start_reduce_scatter(2, Axis::data, {&scatter, 1});
      collectives().wait(2);
      std::vector<double> sums(part, 0);
      for (size_t rank = 0; rank < ranks; ++rank) {
        const std::vector<float> theirs = numbers_of(static_cast<int64_t>(rank), count, 2);
        for (size_t i = 0; i < part && self * part + i < count; ++i) sums[i] += theirs[self * part + i];
      }
      double worst = 0;
      for (size_t i = 0; i < part; ++i) worst = std::max(worst, std::abs(sums[i] - own[i]));
      CHECK(worst < 1e-6 * static_cast<double>(ranks));
    }
  }
}

TEST_CASE("ranks wait for a late one, and leave their core to others") {
  std::vector<double> numbers = {1.5, static_cast<double>(group().rank())};
  if (group().rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  group().all_reduce(numbers);
  const auto all = static_cast<double>(group().size());
  CHECK(numbers == std::vector<double>{1.5 * all, all * (all - 1) / 2});
}

TEST_CASE("all ranks get the bytes of rank 0") {
  std::vector<std::byte> bytes(100001, static_cast<std::byte>(group().rank() + 5));
  group().broadcast(bytes);
  CHECK(std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{5}; }));
}

TEST_CASE("ranks in groups gather, share out and add up among themselves") {
  const int64_t ranks = group().size();
  for (int64_t shards = 1; shards <= ranks; ++shards) {
    if (ranks % shards != 0) continue;
    const Mesh mesh{.replicas = ranks / shards, .shards = shards};
    group().arrange(mesh);
    for (const Axis axis : {Axis::shards, Axis::replicas}) {
      constexpr size_t kPart = 5;
      const int64_t rank = group().rank(), peers = mesh.size(axis);
      const auto count = static_cast<size_t>(peers) * kPart - 2;
      std::vector<float> own = numbers_of(rank, kPart, 1), gathered(count), sum = numbers_of(rank, 9, 3);
      const std::vector<float> mine = numbers_of(rank, count, 2);
      std::vector<float> part(kPart, -1);
      const Gathered gather{std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(gathered))};
      const Scattered scatter{part, mine};
      const std::span<float> numbers = sum;
      collectives().start_all_gather(1, axis, {&gather, 1});
      collectives().start_reduce_scatter(2, axis, {&scatter, 1});
      collectives().start_all_reduce(3, axis, {&numbers, 1});
      for (const int64_t number : {2, 3, 1}) collectives().wait(number);
      double worst = 0;
      const int64_t self = mesh.coordinate(axis, rank);
      for (size_t i = 0; i < count; ++i) {
        const int64_t from = mesh.peer(axis, rank, static_cast<int64_t>(i / kPart));
        worst = std::max<double>(worst, std::abs(gathered[i] - numbers_of(from, kPart, 1)[i % kPart]));
      }
      std::vector<double> parts(kPart, 0), sums(sum.size(), 0);
      for (int64_t each = 0; each < peers; ++each) {
        const int64_t peer = mesh.peer(axis, rank, each);
        const std::vector<float> theirs = numbers_of(peer, count, 2), more = numbers_of(peer, sum.size(), 3);
        for (size_t i = 0; i < kPart; ++i) {
          const size_t at = static_cast<size_t>(self) * kPart + i;
          if (at < count) parts[i] += theirs[at];
        }
        for (size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
      }
      for (size_t i = 0; i < kPart; ++i) worst = std::max(worst, std::abs(parts[i] - part[i]));
      for (size_t i = 0; i < sums.size(); ++i) worst = std::max(worst, std::abs(sums[i] - sum[i]));
      INFO(shards << " of " << ranks << " ranks, along " << to_string(axis));
      CHECK(worst < 1e-6 * static_cast<double>(ranks));
    }
  }
}

}  // namespace trainer
