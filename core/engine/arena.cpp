// SPDX-License-Identifier: Apache-2.0
#include "core/engine/arena.h"

#include <algorithm>
#include <numeric>

namespace trainer {

int64_t align_up(int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

namespace {

bool overlap(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

struct Span {
  int64_t begin, end;
};

/// The start of the smallest gap between `taken` (sorted by begin) that holds `bytes`; else past their end.
int64_t best_gap(const std::vector<Span>& taken, int64_t bytes) {
  int64_t best = -1, best_size = 0, reached = 0;
  for (const Span& span : taken) {
    const int64_t gap = span.begin - reached;
    if (gap >= bytes && (best < 0 || gap < best_size)) best = reached, best_size = gap;
    reached = std::max(reached, span.end);
  }
  return best < 0 ? reached : best;
}

}  // namespace

Arrangement arrange(const std::vector<Lifetime>& lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  Arrangement result{.offsets = std::vector<int64_t>(lifetimes.size(), 0), .bytes = 0};
  std::vector<size_t> placed;
  for (size_t i : order) {
    const int64_t bytes = align_up(lifetimes[i].bytes);
    if (bytes == 0) continue;
    std::vector<Span> taken;
    for (size_t other : placed) {
      if (!overlap(lifetimes[i], lifetimes[other])) continue;
      taken.push_back({result.offsets[other], result.offsets[other] + align_up(lifetimes[other].bytes)});
    }
    std::sort(taken.begin(), taken.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
    result.offsets[i] = best_gap(taken, bytes);
    result.bytes = std::max(result.bytes, result.offsets[i] + bytes);
    placed.push_back(i);
  }
  return result;
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
