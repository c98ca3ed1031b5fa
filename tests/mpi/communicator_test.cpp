// SPDX-License-Identifier: Apache-2.0
// Every rank runs the same cases, under mpirun.
#include "tests/catch.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/checksum.h"
#include "core/engine/communicator_library.h"
#include "core/ranks/identity.h"

namespace trainer {
namespace {

/// One for the whole process: MPI starts once.
Communicator& ranks() {
  static const std::unique_ptr<Communicator> communicator = [] {
    const Identity identity = launched_as();
    return load_communicator(
        "mpi", {.rank = identity.rank, .ranks = identity.ranks, .on_lost = [](const auto& text) {
                  FAIL_CHECK(text);
                  std::_Exit(76);
                }});
  }();
  return *communicator;
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
  ranks().broadcast(std::as_writable_bytes(std::span(&first, 1)));
  return own == first;
}

}  // namespace

TEST_CASE("a rank is what the launcher says") {
  const Identity identity = launched_as();
  CHECK(ranks().rank() == identity.rank);
  CHECK(ranks().ranks() == identity.ranks);
}

TEST_CASE("sums of any size: right, and the same bits on every rank") {
  for (const size_t count : {1, 2, 3, 17, 1000, 16385, 1000003}) {
    std::vector<float> own = numbers_of(ranks().rank(), count, 1), other = numbers_of(ranks().rank(), 5, 2);
    const std::vector<std::span<float>> parts = {own, std::span<float>(), other};
    ranks().start_sum(3, parts);
    ranks().finish_sum(3);
    CHECK(as_on_rank_0(own));
    CHECK(as_on_rank_0(other));
    double worst = 0;
    std::vector<double> expected(count, 0);
    for (int64_t rank = 0; rank < ranks().ranks(); ++rank) {
      const std::vector<float> theirs = numbers_of(rank, count, 1);
      for (size_t i = 0; i < count; ++i) expected[i] += theirs[i];
    }
    for (size_t i = 0; i < count; ++i) worst = std::max(worst, std::abs(expected[i] - own[i]));
    CHECK(worst < 1e-6 * static_cast<double>(ranks().ranks()));
  }
}

TEST_CASE("several sums are under way, and are begun again under the same number") {
  for (int64_t round = 0; round < 50; ++round) {
    std::vector<std::vector<float>> buckets;
    for (int64_t i = 0; i < 4; ++i) buckets.push_back(numbers_of(ranks().rank(), 100 + 7 * i, round));
    for (int64_t i = 0; i < 4; ++i) {
      const std::span<float> part = buckets[i];
      ranks().start_sum(i, {&part, 1});
    }
    ranks().vote(round, {.stop = round == 7 && ranks().rank() == ranks().ranks() - 1});
    for (int64_t i = 3; i >= 0; --i) ranks().finish_sum(i);
    CHECK(ranks().result(round) == Vote{.stop = round == 7});
    for (const auto& bucket : buckets) CHECK(as_on_rank_0(bucket));
  }
}

TEST_CASE("each rank sends numbers of its own to all, several at once and beside a sum") {
  for (int64_t round = 0; round < 20; ++round) {
    std::vector<std::vector<float>> sent, more;
    std::vector<float> added = numbers_of(ranks().rank(), 31, round);
    const std::span<float> sum = added;
    for (int64_t from = 0; from < ranks().ranks(); ++from) {
      const auto count = static_cast<size_t>(1 + 1000 * from);
      sent.push_back(numbers_of(ranks().rank(), count, round));
      more.push_back(numbers_of(ranks().rank(), 7, round + 5));
    }
    for (int64_t from = 0; from < ranks().ranks(); ++from) {
      const auto place = static_cast<size_t>(from);
      const std::vector<std::span<float>> parts = {sent[place], std::span<float>(), more[place]};
      ranks().start_broadcast(from, parts);
      if (from == 0) ranks().start_sum(0, {&sum, 1});
    }
    for (int64_t from = 0; from < ranks().ranks(); ++from) {
      ranks().finish_broadcast(from);
      const auto place = static_cast<size_t>(from);
      CHECK(sent[place] == numbers_of(from, sent[place].size(), round));
      CHECK(more[place] == numbers_of(from, 7, round + 5));
    }
    ranks().finish_sum(0);
    CHECK(as_on_rank_0(added));
  }
}

TEST_CASE("a rank that is late is waited for, while others keep their core") {
  std::vector<double> numbers = {1.5, static_cast<double>(ranks().rank())};
  if (ranks().rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ranks().add_up(numbers);
  const auto all = static_cast<double>(ranks().ranks());
  CHECK(numbers == std::vector<double>{1.5 * all, all * (all - 1) / 2});
}

TEST_CASE("all ranks get what rank 0 has") {
  std::vector<std::byte> bytes(100001, static_cast<std::byte>(ranks().rank() + 5));
  ranks().broadcast(bytes);
  CHECK(std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{5}; }));
}

}  // namespace trainer
