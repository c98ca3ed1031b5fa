// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/append_to_cache.h"

#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

void append_to_cache(const Call& call) {
  const AppendSizes sizes(call.inputs);
  const int64_t width = call.shape_in(AppendToCache::kCache)[2],
                first = *call.in<int32_t>(AppendToCache::kFirstRow);
  for (int64_t n = 0; n < sizes.samples; ++n) {
    for (int64_t s = 0; s < sizes.cached; ++s) {
      const bool is_new = s >= first && s < first + sizes.rows;
      for (int64_t e = 0; e < width; ++e) {
        const int64_t place = (n * sizes.cached + s) * width + e;
        call.out(AppendToCache::kY)[place] =
            is_new ? call.in(AppendToCache::kRows)[(n * sizes.rows + s - first) * width + e]
                   : call.in(AppendToCache::kCache)[place];
      }
    }
  }
}

}  // namespace

void add_append_to_cache(Loops& loops) {
  loops[typeid(AppendToCache)] = append_to_cache;
}

}  // namespace trainer::reference
