// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/append_to_cache.h"

#include <algorithm>
#include <cstring>

#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

std::unique_ptr<Kernel> compile_append_to_cache(const OpContext& context, const Choice&, const Slots& slots) {
  const AppendSizes sizes(context.inputs);
  return kernel([=, cache = slots.inputs[AppendToCache::kCache], rows = slots.inputs[AppendToCache::kRows],
                 place = slots.inputs[AppendToCache::kFirstRow], y = slots.outputs[AppendToCache::kY]] {
    const int64_t sample_bytes = sizes.cached * sizes.row_bytes;
    // The plan computes y in the cache's own memory, if nothing else reads the cache.
    if (*cache != *y) {
      std::memcpy(at<char>(y), at<const char>(cache), static_cast<size_t>(sizes.samples * sample_bytes));
    }
    const int64_t first = *at<const int32_t>(place), fitting = std::min(sizes.rows, sizes.cached - first);
    if (fitting <= 0) return;
    parallel_rows(sizes.samples, fitting * sizes.row_bytes / 4, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        std::memcpy(at<char>(y) + n * sample_bytes + first * sizes.row_bytes,
                    at<const char>(rows) + n * sizes.rows * sizes.row_bytes,
                    static_cast<size_t>(fitting * sizes.row_bytes));
      }
    });
  });
}

}  // namespace

void add_append_to_cache(Handlers& handlers) {
  handlers[typeid(AppendToCache)] = {select_row_major, compile_append_to_cache, {}};
}

}  // namespace trainer::cpu
