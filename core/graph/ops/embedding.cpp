// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/embedding.h"

namespace trainer {
namespace {

void expect_ids(const TensorSpec& ids) {
  expect(ids.dtype == DType::i32 && ids.shape.size() == 2,
         "expected token ids (N, T), got " + std::string(to_string(ids.dtype)) + " of shape " +
             to_string(ids.shape) + "; a network reads them with model.input_kind: tokens");
}

}  // namespace

std::vector<TensorSpec> Embedding::infer(std::span<const TensorSpec> inputs) const {
  const Shape &ids = inputs[kIds].shape, &table = inputs[kTable].shape;
  expect_ids(inputs[kIds]);
  expect(table.size() == 2, "expected a table (vocabulary, features), got shape " + to_string(table));
  return {{.shape = {ids[0], ids[1], table[1]}, .dtype = inputs[kTable].dtype}};
}

std::vector<TensorId> Embedding::gradient(const Backward& backward) const {
  std::vector<TensorId> gradients(kInputs, kNone);
  if (backward.wanted[kTable]) {
    gradients[kTable] = backward.build.emit<EmbeddingBackward>({backward.x(kIds), backward.dy[kY]},
                                                               backward.shape(kTable)[0], along);
  }
  return gradients;
}

std::vector<TensorSpec> EmbeddingBackward::infer(std::span<const TensorSpec> inputs) const {
  const Shape &ids = inputs[kIds].shape, &dy = inputs[kDy].shape;
  expect_ids(inputs[kIds]);
  expect(dy.size() == 3 && Shape(dy.begin(), dy.end() - 1) == ids,
         "gradients of shape " + to_string(dy) + " met ids of shape " + to_string(ids));
  return {{.shape = {vocabulary, dy.back()}, .dtype = DType::f32}};
}

double EmbeddingBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return static_cast<double>(numel(inputs[kDy].shape));
}

}  // namespace trainer
