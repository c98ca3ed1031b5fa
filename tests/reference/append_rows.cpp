// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/append_rows.h"

#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

void append_rows(const Call& call) {
  const AppendExtents extents(call.inputs);
  const int64_t width = call.shape_in(AppendRows::kCache)[2],
                first = *call.in<int32_t>(AppendRows::kFirstRow);
  for (int64_t n = 0; n < extents.samples; ++n) {
    for (int64_t s = 0; s < extents.cached; ++s) {
      const bool is_new = s >= first && s < first + extents.rows;
      for (int64_t e = 0; e < width; ++e) {
        const int64_t place = (n * extents.cached + s) * width + e;
        call.out(AppendRows::kY)[place] =
            is_new ? call.in(AppendRows::kRows)[(n * extents.rows + s - first) * width + e]
                   : call.in(AppendRows::kCache)[place];
      }
    }
  }
}

}  // namespace

void add_append_rows(Loops& loops) {
  loops[typeid(AppendRows)] = append_rows;
}

}  // namespace trainer::reference
