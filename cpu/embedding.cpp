// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/embedding.h"

#include <cstring>

#include "cpu/parallel.h"
#include "cpu/table.h"
#include "cpu/table_rows.h"

namespace trainer::cpu {
namespace {

/// The rows that the rank has at that position among those that share the table.
TableRows rows_of(const std::optional<Along>& along, int64_t rows, int64_t position) {
  if (!along) return {};
  return {.begin = rows * position, .rows = rows};
}

std::unique_ptr<Kernel> compile_forward(const ProcessGroup* group, const OpContext& c, const Slots& slots) {
  const int64_t tokens = numel(c.inputs[Embedding::kIds].shape), rows = c.inputs[Embedding::kTable].shape[0],
                width = c.inputs[Embedding::kTable].shape[1];
  const int64_t bytes = width * bytes_per_element(c.inputs[Embedding::kTable].dtype);
  const auto& along = static_cast<const Embedding&>(c.op).along;
  return kernel([=, row_of = rows_of(along, rows, position_along(group, along)),
                 ids = slots.inputs[Embedding::kIds], table = slots.inputs[Embedding::kTable],
                 y = slots.outputs[Embedding::kY]]() mutable {
    row_of.ids = at<const int32_t>(ids);
    parallel_rows(tokens, width, [=](int64_t begin, int64_t end) {
      for (int64_t token = begin; token < end; ++token) {
        const int64_t row = row_of(token);
        char* to = at<char>(y) + token * bytes;
        if (row == kElsewhere) {
          std::memset(to, 0, static_cast<size_t>(bytes));
        } else {
          std::memcpy(to, at<const char>(table) + row * bytes, static_cast<size_t>(bytes));
        }
      }
    });
  });
}

std::unique_ptr<Kernel> compile_backward(const ProcessGroup* group, const OpContext& c, const Slots& slots) {
  const int64_t tokens = numel(c.inputs[EmbeddingBackward::kIds].shape),
                rows = c.outputs[EmbeddingBackward::kDtable].shape[0],
                width = c.outputs[EmbeddingBackward::kDtable].shape[1];
  const auto& along = static_cast<const EmbeddingBackward&>(c.op).along;
  return kernel([=, row_of = rows_of(along, rows, position_along(group, along)),
                 dtype = c.inputs[EmbeddingBackward::kDy].dtype, ids = slots.inputs[EmbeddingBackward::kIds],
                 dy = slots.inputs[EmbeddingBackward::kDy],
                 dw = slots.outputs[EmbeddingBackward::kDtable]]() mutable {
    row_of.ids = at<const int32_t>(ids);
    sum_table_rows(row_of, tokens, width, dtype, *dy, rows, at<float>(dw));
  });
}

}  // namespace

void add_embedding(Handlers& handlers) {
  const ProcessGroup* const group = handlers.group();
  handlers[typeid(Embedding)] = {select_row_major, for_rank(group, compile_forward), {}};
  handlers[typeid(EmbeddingBackward)] = {select_row_major, for_rank(group, compile_backward), {}};
}

}  // namespace trainer::cpu
