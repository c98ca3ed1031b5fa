// SPDX-License-Identifier: Apache-2.0
#include "cpu/table_rows.h"

#include <algorithm>

#include "cpu/handler.h"
#include "cpu/parallel.h"

namespace trainer::cpu {
namespace {

template <class T>
TRAINER_MULTIVERSION void add_row(const T* from, float* to, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] += float(from[i]);
}

}  // namespace

void sum_table_rows(const TableRows& row_of, int64_t tokens, int64_t width, DType dtype, const void* dy,
                    int64_t rows, float* table) {
  constexpr int64_t kCacheLine = 16;  // floats
  parallel_elements(rows * width,
                    [=](int64_t begin, int64_t end) { std::fill(table + begin, table + end, 0.0f); });
  // Threads take columns, not rows: frequent tokens have neighbouring ids, and one thread would get them all.
  with_storage(dtype, [&](auto element) {
    const auto* from = static_cast<const decltype(element)*>(dy);
    parallel_ranges(width, kCacheLine, kElementsWorthAThread / tokens, [=](int64_t begin, int64_t end) {
      for (int64_t token = 0; token < tokens; ++token) {
        const int64_t row = row_of(token);
        if (row != kElsewhere)
          add_row(from + token * width + begin, table + row * width + begin, end - begin);
      }
    });
    return 0;
  });
}

}  // namespace trainer::cpu
