// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/append_to_cache.h"

#include <fmt/format.h>

namespace trainer {

std::vector<TensorSpec> AppendToCache::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs, "needs a cache, rows and the place of the first row");
  const Shape &cache = inputs[kCache].shape, &rows = inputs[kRows].shape;
  expect(
      cache.size() == 3 && rows.size() == 3 && rows[0] == cache[0] && rows[2] == cache[2],
      fmt::format("rows of shape {} do not go into a cache of shape {}", to_string(rows), to_string(cache)));
  expect(rows[1] <= cache[1], fmt::format("{} rows are more than a cache of {} holds", rows[1], cache[1]));
  expect_one_type(inputs, {kCache, kRows});
  expect(inputs[kFirstRow] == TensorSpec{{1}, DType::i32}, "the place of the first row is i32 (1)");
  return {inputs[kCache]};
}

AppendSizes::AppendSizes(std::span<const TensorSpec> inputs)
    : samples(inputs[AppendToCache::kCache].shape[0]),
      cached(inputs[AppendToCache::kCache].shape[1]),
      rows(inputs[AppendToCache::kRows].shape[1]),
      row_bytes(inputs[AppendToCache::kCache].shape[2] *
                bytes_per_element(inputs[AppendToCache::kCache].dtype)) {}

}  // namespace trainer
