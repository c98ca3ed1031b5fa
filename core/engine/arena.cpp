// SPDX-License-Identifier: Apache-2.0
#include "core/engine/arena.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "core/engine/occupied_space.h"

namespace trainer {

int64_t align_up(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

namespace {

/// Places lifetimes in this order.
Arrangement arrange_in(const std::vector<Lifetime>& lifetimes, const std::vector<size_t>& order) {
  Arrangement result{.offsets = std::vector<int64_t>(lifetimes.size(), 0), .bytes = 0};
  OccupiedSpace occupied;
  for (size_t i : order) {
    const Lifetime& life = lifetimes[i];
    const int64_t bytes = align_up(life.bytes);
    if (bytes == 0) continue;
    const int64_t begin = occupied.best_gap(life.first, life.last, bytes, life.alignment);
    result.offsets[i] = begin;
    result.bytes = std::max(result.bytes, begin + bytes);
    occupied.take({life.first, life.last, begin, begin + bytes});
  }
  return result;
}

/// Position in `order` of the lifetime that reaches the end of the arrangement.
size_t topmost(const std::vector<Lifetime>& lifetimes, const std::vector<size_t>& order,
               const Arrangement& found) {
  size_t top = 0;
  while (found.offsets[order[top]] + align_up(lifetimes[order[top]].bytes) != found.bytes) ++top;
  return top;
}

/// Beyond the lifetimes of any network that comes with the program.
constexpr size_t kMany = 3000;

/// Tries one order, then repeatedly one with the topmost lifetime placed earlier.
Arrangement improve(const std::vector<Lifetime>& lifetimes, std::vector<size_t> order, int64_t enough) {
  constexpr double kAttempts = 24;  // networks with skip connections settle within ten
  const double share = static_cast<double>(kMany) / static_cast<double>(std::max(kMany, lifetimes.size()));
  const auto attempts = static_cast<size_t>(kAttempts * share * share);  // each attempt takes longer, too
  Arrangement best = arrange_in(lifetimes, order), now = best;
  for (size_t attempt = 0; attempt < attempts && best.bytes > enough; ++attempt) {
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
  // Of very many lifetimes another order takes seconds, and can gain no more than a thousandth.
  const int64_t enough = lifetimes.size() > kMany ? bound + bound / 1000 : bound;
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
    const Arrangement found = improve(lifetimes, order, enough);
    if (best.offsets.empty() || found.bytes < best.bytes) best = found;
    if (best.bytes <= enough) break;
  }
  return best;
}

std::vector<int64_t> live_bytes(const std::vector<Lifetime>& lifetimes) {
  std::vector<size_t> begins(lifetimes.size());
  std::iota(begins.begin(), begins.end(), size_t{0});
  std::vector<size_t> ends = begins;
  std::ranges::sort(begins, {}, [&](size_t i) { return lifetimes[i].first; });
  std::ranges::sort(ends, {}, [&](size_t i) { return lifetimes[i].last; });
  std::vector<int64_t> live(lifetimes.size());
  int64_t sum = 0;
  size_t ended = 0;
  for (size_t i = 0; i < begins.size();) {
    const int64_t step = lifetimes[begins[i]].first;
    size_t next = i;
    for (; next < begins.size() && lifetimes[begins[next]].first == step; ++next)
      sum += align_up(lifetimes[begins[next]].bytes);
    for (; ended < ends.size() && lifetimes[ends[ended]].last < step; ++ended)
      sum -= align_up(lifetimes[ends[ended]].bytes);
    for (; i < next; ++i) live[begins[i]] = sum;
  }
  return live;
}

/// The sum can only rise if something begins.
int64_t lower_bound_bytes(const std::vector<Lifetime>& lifetimes) {
  const std::vector<int64_t> live = live_bytes(lifetimes);
  return live.empty() ? 0 : std::ranges::max(live);
}

}  // namespace trainer
