// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/thread_group.h"

#include <algorithm>
#include <limits>
#include <numeric>
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

void ThreadGroup::send(size_t from, size_t to, int64_t number, std::vector<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  messages_[{from, to, number}].push_back(std::move(bytes));
  changed_.notify_all();
}

std::vector<std::byte> ThreadGroup::receive(size_t from, size_t to, int64_t number) {
  std::unique_lock lock(mutex_);
  std::deque<std::vector<std::byte>>& queue = messages_[{from, to, number}];
  changed_.wait(lock, [&] { return !queue.empty(); });
  std::vector<std::byte> bytes = std::move(queue.front());
  queue.pop_front();
  return bytes;
}

ThreadGroup::Members ThreadGroup::all() const {
  Members members(size());
  std::iota(members.begin(), members.end(), size_t{0});
  return members;
}

int64_t ThreadGroup::put(size_t rank, const Members& members, std::vector<double> numbers) {
  const std::lock_guard lock(mutex_);
  const int64_t sum = begun_[{rank, members}]++;
  numbers_[{members, sum}][rank] = std::move(numbers);
  changed_.notify_all();
  return sum;
}

std::vector<std::vector<double>> ThreadGroup::get(const Members& members, int64_t sum) {
  std::unique_lock lock(mutex_);
  const auto& numbers = numbers_[{members, sum}];
  changed_.wait(lock, [&] { return numbers.size() == members.size(); });
  std::vector<std::vector<double>> all;
  for (const auto& [rank, own] : numbers) {
    if (own.size() != numbers.begin()->second.size())
      throw std::logic_error("ranks add up different numbers of numbers");
    all.push_back(own);
  }
  return all;
}

void ThreadProcessGroup::start(int64_t number, Axis axis, std::vector<double> numbers,
                               std::function<void(const Numbers&)> finish) {
  ThreadGroup::Members members;
  for (int64_t i = 0; i < mesh().size(axis); ++i)
    members.push_back(static_cast<size_t>(mesh().peer(axis, rank(), i)));
  const int64_t sum = group_.put(rank_, members, std::move(numbers));
  const Begun begun{.members = std::move(members), .sum = sum, .finish = std::move(finish)};
  if (!begun_.try_emplace(number, begun).second) throw std::logic_error("something is begun twice");
}

void ThreadProcessGroup::start_exchange(int64_t number, std::span<const Sent> sent,
                                        std::span<const Received> received) {
  count(Axis::pipeline, sent, [](const Sent& each) { return each.bytes.size(); });
  const auto peer = [&](int64_t position) {
    return static_cast<size_t>(mesh().peer(Axis::pipeline, rank(), position));
  };
  for (const Sent& each : sent)
    group_.send(rank_, peer(each.peer), each.number, {each.bytes.begin(), each.bytes.end()});
  for (const Received& each : received) std::ranges::fill(each.bytes, std::byte{0xFF});
  expected_[number] = {received.begin(), received.end()};
}

void ThreadProcessGroup::wait(int64_t number) {
  if (const auto expected = expected_.find(number); expected != expected_.end()) {
    for (const Received& each : expected->second) {
      const auto from = static_cast<size_t>(mesh().peer(Axis::pipeline, rank(), each.peer));
      const std::vector<std::byte> bytes = group_.receive(from, rank_, each.number);
      if (bytes.size() != each.bytes.size()) throw std::logic_error("a message of another length");
      std::ranges::copy(bytes, each.bytes.begin());
    }
    expected_.erase(expected);
    return;
  }
  const auto place = begun_.find(number);
  if (place == begun_.end()) {
    if (skips_collectives()) return;
    throw std::logic_error("nothing with this number was begun");
  }
  const Begun begun = std::move(place->second);
  begun_.erase(place);
  begun.finish(group_.get(begun.members, begun.sum));
}

namespace {

std::vector<double> numbers_of(std::span<const std::span<float>> spans) {
  std::vector<double> numbers;
  for (const std::span<float>& span : spans) numbers.insert(numbers.end(), span.begin(), span.end());
  return numbers;
}

void hide(std::span<const std::span<float>> spans) {
  for (const std::span<float>& span : spans) std::ranges::fill(span, std::numeric_limits<float>::quiet_NaN());
}

/// The sum of all ranks' numbers at that place, in their order.
float sum_at(const std::vector<std::vector<double>>& all, size_t i) {
  auto value = static_cast<float>(all[0][i]);
  for (size_t rank = 1; rank < all.size(); ++rank) value += static_cast<float>(all[rank][i]);
  return value;
}

}  // namespace

void ThreadProcessGroup::start_all_reduce(int64_t number, Axis axis,
                                          std::span<const std::span<float>> numbers) {
  count(axis, numbers, [](const auto& each) { return each.size_bytes(); });
  std::vector<double> own = numbers_of(numbers);
  hide(numbers);
  start(number, axis, std::move(own),
        [spans = std::vector(numbers.begin(), numbers.end())](const Numbers& all) {
          size_t i = 0;
          for (const std::span<float>& span : spans) {
            for (float& value : span) value = sum_at(all, i++);
          }
        });
}

void ThreadProcessGroup::start_broadcast(int64_t number, int64_t root,
                                         std::span<const std::span<float>> numbers) {
  count(Axis::data, numbers, [](const auto& each) { return each.size_bytes(); });
  std::vector<double> own = numbers_of(numbers);
  hide(numbers);
  start(number, Axis::data, std::move(own),
        [root, spans = std::vector(numbers.begin(), numbers.end())](const Numbers& all) {
          size_t i = 0;
          for (const std::span<float>& span : spans) {
            for (float& value : span) value = static_cast<float>(all[static_cast<size_t>(root)][i++]);
          }
        });
}

void ThreadProcessGroup::start_all_gather(int64_t number, Axis axis, std::span<const Gathered> tensors) {
  count(axis, tensors, [](const Gathered& each) { return each.whole.size(); });
  std::vector<double> bytes;
  for (const Gathered& tensor : tensors) {
    for (const std::byte byte : tensor.own) bytes.push_back(std::to_integer<int>(byte));
    std::ranges::fill(tensor.whole, std::byte{0xFF});
  }
  start(number, axis, std::move(bytes),
        [copies = std::vector(tensors.begin(), tensors.end())](const Numbers& all) {
          size_t before = 0;
          for (const Gathered& tensor : copies) {
            const size_t part = tensor.own.size();
            for (size_t i = 0; i < tensor.whole.size(); ++i)
              tensor.whole[i] = static_cast<std::byte>(static_cast<int>(all[i / part][before + i % part]));
            before += part;
          }
        });
}

void ThreadProcessGroup::start_reduce_scatter(int64_t number, Axis axis, std::span<const Scattered> tensors) {
  count(axis, tensors, [](const Scattered& each) { return each.whole.size_bytes(); });
  std::vector<double> numbers;
  for (const Scattered& tensor : tensors) {
    numbers.insert(numbers.end(), tensor.whole.begin(), tensor.whole.end());
    std::ranges::fill(tensor.own, std::numeric_limits<float>::quiet_NaN());
  }
  const auto position = static_cast<size_t>(mesh().coordinate(axis, rank()));
  start(number, axis, std::move(numbers),
        [position, copies = std::vector(tensors.begin(), tensors.end())](const Numbers& all) {
          size_t before = 0;
          for (const Scattered& tensor : copies) {
            const size_t first = position * tensor.own.size();
            for (size_t i = 0; i < tensor.own.size(); ++i)
              tensor.own[i] = first + i < tensor.whole.size() ? sum_at(all, before + first + i) : 0;
            before += tensor.whole.size();
          }
        });
}

void ThreadProcessGroup::all_reduce(std::span<double> numbers) {
  const auto all =
      group_.get(group_.all(), group_.put(rank_, group_.all(), {numbers.begin(), numbers.end()}));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = 0;
    for (const auto& one : all) numbers[i] += one[i];
  }
}

void ThreadProcessGroup::broadcast(std::span<std::byte> bytes, int64_t root) {
  std::vector<double> own;
  for (const std::byte byte : bytes) own.push_back(std::to_integer<int>(byte));
  const auto all = group_.get(group_.all(), group_.put(rank_, group_.all(), std::move(own)));
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(static_cast<int>(all[static_cast<size_t>(root)][i]));
}

}  // namespace trainer::test
