// SPDX-License-Identifier: Apache-2.0
#include "core/engine/arena.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

namespace trainer {

int64_t align_up(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

namespace {

/// A lifetime with its place.
struct Placed {
  int64_t begin, end, first, last;
};

/// The start of the smallest gap that holds `bytes` between what of `placed` (sorted by begin) lives at the
/// same time; else past its end.
int64_t best_gap(const std::vector<Placed>& placed, const Lifetime& life, int64_t bytes) {
  int64_t best = -1, best_size = 0, start = 0;
  for (const Placed& other : placed) {
    if (other.first > life.last || life.first > other.last) continue;
    const int64_t gap = other.begin - start;
    if (gap >= bytes && (best < 0 || gap < best_size)) best = start, best_size = gap;
    if (other.end > start) start = align_up(other.end, life.alignment);
  }
  return best < 0 ? start : best;
}

/// Places lifetimes in this order.
Arrangement arrange_in(const std::vector<Lifetime>& lifetimes, const std::vector<size_t>& order) {
  Arrangement result{.offsets = std::vector<int64_t>(lifetimes.size(), 0), .bytes = 0};
  std::vector<Placed> placed;
  placed.reserve(order.size());
  for (size_t i : order) {
    const Lifetime& life = lifetimes[i];
    const int64_t bytes = align_up(life.bytes);
    if (bytes == 0) continue;
    const int64_t begin = best_gap(placed, life, bytes);
    result.offsets[i] = begin;
    result.bytes = std::max(result.bytes, begin + bytes);
    const auto after = std::upper_bound(placed.begin(), placed.end(), begin,
                                        [](int64_t at, const Placed& other) { return at < other.begin; });
    placed.insert(after, {begin, begin + bytes, life.first, life.last});
  }
  return result;
}

/// Position in `order` of what reaches the end of the arrangement.
size_t topmost(const std::vector<Lifetime>& lifetimes, const std::vector<size_t>& order,
               const Arrangement& found) {
  size_t top = 0;
  while (found.offsets[order[top]] + align_up(lifetimes[order[top]].bytes) != found.bytes) ++top;
  return top;
}

/// Tries one order, then again and again with whatever ended up on top placed earlier.
Arrangement improve(const std::vector<Lifetime>& lifetimes, std::vector<size_t> order, int64_t bound) {
  constexpr int kAttempts = 24;  // networks with skip connections settle within ten
  Arrangement best = arrange_in(lifetimes, order), now = best;
  for (int attempt = 0; attempt < kAttempts && best.bytes > bound; ++attempt) {
    const auto top = order.begin() + static_cast<std::ptrdiff_t>(topmost(lifetimes, order, now));
    const auto earlier = order.begin() + (top - order.begin()) / 2;
    std::rotate(earlier, top, top + 1);
    now = arrange_in(lifetimes, order);
    if (now.bytes < best.bytes) best = now;
  }
  return best;
}

}  // namespace

Arrangement arrange(const std::vector<Lifetime>& lifetimes) {
  const int64_t bound = lower_bound_bytes(lifetimes);
  const auto steps = [](const Lifetime& life) { return life.last - life.first + 1; };
  const std::array<std::function<int64_t(const Lifetime&)>, 5> firsts = {
      [](const Lifetime& life) { return life.bytes; },
      steps,
      [](const Lifetime& life) { return -life.first; },
      [&](const Lifetime& life) { return life.bytes * steps(life); },
      [](const Lifetime& life) { return life.first; },
  };
  Arrangement best;
  for (const auto& key : firsts) {
    std::vector<size_t> order(lifetimes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return key(lifetimes[a]) > key(lifetimes[b]); });
    const Arrangement found = improve(lifetimes, order, bound);
    if (best.offsets.empty() || found.bytes < best.bytes) best = found;
    if (best.bytes == bound) break;
  }
  return best;
}

int64_t lower_bound_bytes(const std::vector<Lifetime>& lifetimes) {
  int64_t largest = 0;
  for (const Lifetime& at : lifetimes) {  // the sum can only rise where something begins
    int64_t sum = 0;
    for (const Lifetime& other : lifetimes) {
      if (other.first <= at.first && at.first <= other.last) sum += align_up(other.bytes);
    }
    largest = std::max(largest, sum);
  }
  return largest;
}

}  // namespace trainer
