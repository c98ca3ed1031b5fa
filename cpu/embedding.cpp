// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/embedding.h"

#include <cstring>

#include "cpu/parallel.h"
#include "cpu/table.h"
#include "cpu/table_rows.h"

namespace trainer::cpu {
namespace {

std::unique_ptr<Kernel> compile_forward(const OpContext& c, const Choice&, const Slots& slots) {
  const int64_t tokens = numel(c.inputs[Embedding::kIds].shape), width = c.inputs[Embedding::kTable].shape[1];
  const int64_t bytes = width * bytes_per_element(c.inputs[Embedding::kTable].dtype);
  return kernel([=, ids = slots.inputs[Embedding::kIds], table = slots.inputs[Embedding::kTable],
                 y = slots.outputs[Embedding::kY]] {
    parallel_rows(tokens, width, [=](int64_t begin, int64_t end) {
      for (int64_t token = begin; token < end; ++token) {
        const int64_t row = at<const int32_t>(ids)[token];
        std::memcpy(at<char>(y) + token * bytes, at<const char>(table) + row * bytes,
                    static_cast<size_t>(bytes));
      }
    });
  });
}

std::unique_ptr<Kernel> compile_backward(const OpContext& c, const Choice&, const Slots& slots) {
  const int64_t tokens = numel(c.inputs[EmbeddingBackward::kIds].shape),
                rows = c.outputs[EmbeddingBackward::kDtable].shape[0],
                width = c.outputs[EmbeddingBackward::kDtable].shape[1];
  return kernel([=, dtype = c.inputs[EmbeddingBackward::kDy].dtype,
                 ids = slots.inputs[EmbeddingBackward::kIds], dy = slots.inputs[EmbeddingBackward::kDy],
                 dw = slots.outputs[EmbeddingBackward::kDtable]] {
    sum_table_rows({.ids = at<const int32_t>(ids)}, tokens, width, dtype, *dy, rows, at<float>(dw));
  });
}

}  // namespace

void add_embedding(Handlers& handlers) {
  handlers[typeid(Embedding)] = {select_row_major, compile_forward, {}};
  handlers[typeid(EmbeddingBackward)] = {select_row_major, compile_backward, {}};
}

}  // namespace trainer::cpu
