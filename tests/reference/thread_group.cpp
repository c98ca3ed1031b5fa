// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/thread_group.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace trainer::test {

void ThreadGroup::vote(size_t rank, int64_t round, const Vote& own) {
  const std::lock_guard lock(mutex_);
  if (rounds(rank) != round) throw std::logic_error("a vote out of order");
  votes_[rank].push_back(own);
  changed_.notify_all();
}

Vote ThreadGroup::result(int64_t round) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return std::ranges::all_of(votes_,
                               [&](const auto& votes) { return static_cast<int64_t>(votes.size()) > round; });
  });
  Vote all;
  for (const auto& votes : votes_) all = all | votes[static_cast<size_t>(round)];
  return all;
}

int64_t ThreadGroup::put(size_t rank, std::vector<double> numbers) {
  const std::lock_guard lock(mutex_);
  const int64_t sum = begun_[rank]++;
  numbers_.try_emplace(sum, size()).first->second[rank] = std::move(numbers);
  changed_.notify_all();
  return sum;
}

std::vector<std::vector<double>> ThreadGroup::get(int64_t sum) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock,
                [&] { return std::ranges::all_of(begun_, [&](int64_t begun) { return begun > sum; }); });
  const auto& all = numbers_.at(sum);
  for (const auto& one : all) {
    if (one.size() != all[0].size()) throw std::logic_error("ranks add up different numbers of numbers");
  }
  return all;
}

void ThreadProcessGroup::start(Open& open, int64_t name, std::span<const std::span<float>> numbers) {
  std::vector<double> all;
  Begun begun{.number = 0, .memory = {numbers.begin(), numbers.end()}};
  for (const std::span<float>& span : numbers) {
    all.insert(all.end(), span.begin(), span.end());
    std::ranges::fill(span, std::numeric_limits<float>::quiet_NaN());
  }
  begun.number = group_.put(rank_, std::move(all));
  if (!open.try_emplace(name, std::move(begun)).second) throw std::logic_error("something is begun twice");
}

/// Each number becomes combine(all ranks' numbers, its position).
template <class Combine>
void ThreadProcessGroup::finish(Open& open, int64_t name, const Combine& combine) {
  const Begun begun = std::move(open.at(name));
  open.erase(name);
  const auto all = group_.get(begun.number);
  size_t i = 0;
  for (const std::span<float>& span : begun.memory) {
    for (float& value : span) value = combine(all, i++);
  }
}

void ThreadProcessGroup::start_all_reduce(int64_t bucket, std::span<const std::span<float>> numbers) {
  start(reduced_, bucket, numbers);
}

void ThreadProcessGroup::wait_all_reduce(int64_t bucket) {
  finish(reduced_, bucket, [](const auto& all, size_t i) {
    auto value = static_cast<float>(all[0][i]);
    for (size_t rank = 1; rank < all.size(); ++rank) value += static_cast<float>(all[rank][i]);
    return value;
  });
}

void ThreadProcessGroup::start_broadcast(int64_t root, std::span<const std::span<float>> numbers) {
  start(broadcast_, root, numbers);
}

void ThreadProcessGroup::wait_broadcast(int64_t root) {
  finish(broadcast_, root,
         [root](const auto& all, size_t i) { return static_cast<float>(all[static_cast<size_t>(root)][i]); });
}

void ThreadProcessGroup::start_all_gather(std::span<const std::byte> own, std::span<std::byte> whole) {
  std::vector<double> bytes;
  for (const std::byte byte : own) bytes.push_back(std::to_integer<int>(byte));
  gathered_ = {.number = group_.put(rank_, std::move(bytes)), .whole = whole, .own = {}};
  std::ranges::fill(whole, std::byte{0xFF});
}

void ThreadProcessGroup::wait_all_gather() {
  const auto all = group_.get(gathered_.number);
  const size_t part = all[0].size();
  for (size_t i = 0; i < gathered_.whole.size(); ++i)
    gathered_.whole[i] = static_cast<std::byte>(static_cast<int>(all[i / part][i % part]));
}

void ThreadProcessGroup::start_reduce_scatter(std::span<const float> whole, std::span<float> own) {
  scattered_ = {.number = group_.put(rank_, {whole.begin(), whole.end()}), .whole = {}, .own = own};
  std::ranges::fill(own, std::numeric_limits<float>::quiet_NaN());
}

void ThreadProcessGroup::wait_reduce_scatter() {
  const auto all = group_.get(scattered_.number);
  const size_t part = scattered_.own.size();
  for (size_t i = 0; i < part; ++i) {
    const size_t at = rank_ * part + i;
    float value = 0;
    for (size_t rank = 0; rank < all.size() && at < all[0].size(); ++rank)
      value = rank == 0 ? static_cast<float>(all[0][at]) : value + static_cast<float>(all[rank][at]);
    scattered_.own[i] = value;
  }
}

void ThreadProcessGroup::all_reduce(std::span<double> numbers) {
  const auto all = group_.get(group_.put(rank_, {numbers.begin(), numbers.end()}));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = 0;
    for (const auto& one : all) numbers[i] += one[i];
  }
}

void ThreadProcessGroup::broadcast(std::span<std::byte> bytes, int64_t root) {
  std::vector<double> own;
  for (const std::byte byte : bytes) own.push_back(std::to_integer<int>(byte));
  const auto all = group_.get(group_.put(rank_, std::move(own)));
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(static_cast<int>(all[static_cast<size_t>(root)][i]));
}

}  // namespace trainer::test
