// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/append_rows.h"

#include <fmt/format.h>

namespace trainer {

std::vector<TensorSpec> AppendRows::infer(std::span<const TensorSpec> inputs) const {
  expect(inputs.size() == 3, "needs a cache, rows and the place of the first row");
  const Shape &cache = inputs[append_input::kCache].shape, &rows = inputs[append_input::kRows].shape;
  expect(
      cache.size() == 3 && rows.size() == 3 && rows[0] == cache[0] && rows[2] == cache[2],
      fmt::format("rows of shape {} do not go into a cache of shape {}", to_string(rows), to_string(cache)));
  expect(rows[1] <= cache[1], fmt::format("{} rows are more than a cache of {} holds", rows[1], cache[1]));
  expect_one_type(inputs, {append_input::kCache, append_input::kRows});
  expect(inputs[append_input::kFirstRow] == TensorSpec{{1}, DType::i32},
         "the place of the first row is i32 (1)");
  return {inputs[append_input::kCache]};
}

AppendExtents::AppendExtents(std::span<const TensorSpec> inputs)
    : samples(inputs[append_input::kCache].shape[0]),
      cached(inputs[append_input::kCache].shape[1]),
      rows(inputs[append_input::kRows].shape[1]),
      row_bytes(inputs[append_input::kCache].shape[2] *
                bytes_per_element(inputs[append_input::kCache].dtype)) {}

}  // namespace trainer
