// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "core/base/multiversion.h"

namespace trainer::cpu {

/// Below this many elements a second thread costs more than it saves.
constexpr int64_t kElementsWorthAThread = 8192;

/// Calls body(begin, end) on contiguous parts of [0, count), in parallel if that pays. Parts begin at
/// multiples of `unit`. The division depends only on the number of threads, so results are reproducible.
template <class Body>
void parallel_ranges(int64_t count, int64_t unit, int64_t worth_a_thread, const Body& body) {
  const int64_t wanted = count / std::max<int64_t>(worth_a_thread, 1);
  const int threads = static_cast<int>(std::clamp<int64_t>(wanted, 1, omp_get_max_threads()));
  if (threads == 1) {
    body(int64_t{0}, count);
    return;
  }
  const int64_t units = (count + unit - 1) / unit;
#pragma omp parallel num_threads(threads)
  {
    const int64_t me = omp_get_thread_num(), all = omp_get_num_threads();
    const int64_t begin = std::min(count, units * me / all * unit);
    const int64_t end = std::min(count, units * (me + 1) / all * unit);
    if (begin < end) body(begin, end);
  }
}

/// The same over elements of f32, divided at cache lines.
template <class Body>
void parallel_elements(int64_t count, const Body& body) {
  parallel_ranges(count, 16, kElementsWorthAThread, body);
}

/// The same over rows of `width` elements.
template <class Body>
void parallel_rows(int64_t rows, int64_t width, const Body& body) {
  parallel_ranges(rows, 1, std::max<int64_t>(1, kElementsWorthAThread / std::max<int64_t>(width, 1)), body);
}

}  // namespace trainer::cpu
