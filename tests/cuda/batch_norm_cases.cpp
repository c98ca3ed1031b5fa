// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <limits>

#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/unary.h"
#include "tests/cuda/cases.h"

namespace trainer {
namespace {

/// Channels in whole eights and not.
const std::vector<Shape> kImages = {{3, 5, 2, 1},  {1, 2, 3, 5},   {2, 16, 4, 4},
                                    {3, 17, 5, 3}, {2, 33, 17, 9}, {4, 64, 1, 1}};
/// More than one part of the rows; more than one block of channels too; more parts than one block adds up.
const std::vector<Shape> kLarge = {{5, 8, 21, 20}, {1, 264, 13, 5}, {1, 3, 260, 263}};

constexpr double kNoCeiling = std::numeric_limits<double>::infinity();

TensorId normalised(Sketch& sketch, TensorId x, TensorId residual, bool relu, double ceiling = kNoCeiling) {
  const Shape channels{sketch.build().shape(x)[1]};
  const TensorId gamma = sketch.parameter("gamma", channels, Values::positive);
  const TensorId beta = sketch.parameter("beta", channels);
  const auto op = std::make_shared<BatchNorm>(1e-3, relu, ceiling);
  const auto y = sketch.build().emit_all(op, {x, gamma, beta, residual});
  sketch.output("mean", y[1]);
  sketch.output("variance", y[2]);
  return y[0];
}

void draft_batch_norm(Sketch& sketch, const Shape& shape, bool residual, bool relu, double ceiling) {
  const TensorId x = sketch.parameter("x", shape);
  const TensorId y = normalised(sketch, x, residual ? sketch.parameter("r", shape) : kNone, relu, ceiling);
  sketch.output("y", y);
  sketch.loss(y);
}

/// y = relu(batch_norm(x) + r) is read twice, so that its gradient is a sum that fusion moves into the
/// normalisation's.
void draft_fused(Sketch& sketch, const Shape& shape) {
  Builder& build = sketch.build();
  const TensorId norm = normalised(sketch, sketch.parameter("x", shape), kNone, false);
  const TensorId sum = build.emit<Binary>({norm, sketch.parameter("r", shape)}, Binary::Kind::add);
  const TensorId y = build.emit<Unary>({sum}, elementwise::Function(elementwise::Relu{}));
  const TensorId branch = build.emit<Unary>({y}, elementwise::Function(elementwise::Tanh{}));
  sketch.loss(build.emit<Binary>({y, branch}, Binary::Kind::add));
}

/// With moments that are given, of x or of anything else.
void draft_table(Sketch& sketch, const Shape& shape, int64_t ranks) {
  const TensorId gamma = sketch.input("gamma", {shape[1]}), beta = sketch.input("beta", {shape[1]});
  const TensorId table = sketch.input("table", {ranks, 2, shape[1]}, Values::positive);
  const auto y =
      sketch.build().emit_all(std::make_shared<BatchNorm>(1e-3, true),
                              {sketch.input("x", shape), gamma, beta, sketch.input("r", shape), table});
  sketch.output("y", y[BatchNorm::kY]), sketch.output("mean", y[BatchNorm::kMean]),
      sketch.output("variance", y[BatchNorm::kVariance]);
  sketch.loss(sketch.parameter("p", {3, 2}));
}

/// With sums of x and of x^2, or of anything else.
void draft_sums(Sketch& sketch, const Shape& shape) {
  const Shape channels{shape[1]};
  const auto rows = static_cast<float>(numel(shape) / shape[1]);
  const TensorId gamma = sketch.input("gamma", channels), beta = sketch.input("beta", channels);
  const TensorId sums = sketch.input("sums", channels),
                 squares = sketch.input("squares", channels, Values::positive);
  for (float& sum : sketch.values["sums"]) sum *= rows / 4;
  for (float& square : sketch.values["squares"]) square = rows * (1 + square);
  const auto y = sketch.build().emit_all(
      std::make_shared<BatchNorm>(1e-3, true),
      {sketch.input("x", shape), gamma, beta, sketch.input("r", shape), kNone, sums, squares});
  sketch.output("y", y[BatchNorm::kY]), sketch.output("mean", y[BatchNorm::kMean]),
      sketch.output("variance", y[BatchNorm::kVariance]);
  sketch.loss(sketch.parameter("p", {3, 2}));
}

/// gamma, beta, mean and variance
std::vector<TensorId> given(Sketch& sketch, int64_t channels) {
  return {sketch.input("gamma", {channels}), sketch.input("beta", {channels}),
          sketch.input("mean", {channels}), sketch.input("variance", {channels}, Values::positive)};
}

void draft_inference(Sketch& sketch, const Shape& shape) {
  std::vector<TensorId> inputs = given(sketch, shape[1]);
  inputs.insert(inputs.begin(), sketch.input("x", shape));
  sketch.output("y", sketch.build().emit<BatchNormInference>(inputs, 1e-3));
  sketch.loss(sketch.parameter("p", {3, 2}));
}

void draft_inference_gradient(Sketch& sketch, const Shape& shape) {
  const Shape channels{shape[1]};
  const std::vector<TensorId> inputs{sketch.parameter("x", shape), sketch.parameter("gamma", channels),
                                     sketch.parameter("beta", channels), sketch.input("mean", channels),
                                     sketch.input("variance", channels, Values::positive)};
  sketch.loss(sketch.build().emit<BatchNormInference>(inputs, 1e-3));
}

void draft_fold(Sketch& sketch, int64_t channels) {
  const std::vector<TensorId> statistics = given(sketch, channels);
  const TensorId w = sketch.input("w", {channels, 5, 3, 2}), bias = sketch.input("bias", {channels});
  for (const TensorId b : {bias, kNone}) {
    std::vector<TensorId> inputs{w, b};
    inputs.insert(inputs.end(), statistics.begin(), statistics.end());
    const auto folded = sketch.build().emit_all(std::make_shared<FoldBatchNorm>(1e-3), inputs);
    sketch.output(fmt::format("w {}", b == kNone), folded[0]);
    sketch.output(fmt::format("b {}", b == kNone), folded[1]);
  }
  sketch.loss(sketch.parameter("p", {3, 2}));
}

}  // namespace

void add_batch_norm_cases(std::vector<KernelCase>& cases) {
  auto add = [&](const Shape& shape, bool residual, bool relu, double ceiling = kNoCeiling) {
    // Rounded inputs of a relu may cross zero, and with few values next to nothing remains of a gradient.
    const bool narrow = !relu && numel(shape) / shape[1] >= 16;
    cases.push_back(
        {fmt::format("batch_norm {} residual {} relu {} up to {}", to_string(shape), residual, relu, ceiling),
         [=](Sketch& sketch) { draft_batch_norm(sketch, shape, residual, relu, ceiling); }, narrow});
  };
  for (const Shape& shape : kImages) {
    for (const bool residual : {false, true}) {
      for (const bool relu : {false, true}) add(shape, residual, relu);
      add(shape, residual, true, 0.7);
    }
    cases.push_back({fmt::format("batch_norm, its gradient a sum, {}", to_string(shape)),
                     [=](Sketch& sketch) { draft_fused(sketch, shape); }, false});
    for (const int64_t ranks : {1, 3}) {
      cases.push_back({fmt::format("batch_norm {} with a table of {}", to_string(shape), ranks),
                       [=](Sketch& sketch) { draft_table(sketch, shape, ranks); }, false});
    }
    cases.push_back({fmt::format("batch_norm {} with sums", to_string(shape)),
                     [=](Sketch& sketch) { draft_sums(sketch, shape); }, false});
    cases.push_back({fmt::format("batch_norm_inference {}", to_string(shape)),
                     [=](Sketch& sketch) { draft_inference(sketch, shape); }});
    cases.push_back({fmt::format("batch_norm_inference, its gradient, {}", to_string(shape)),
                     [=](Sketch& sketch) { draft_inference_gradient(sketch, shape); }, false});
    cases.push_back({fmt::format("fold_batch_norm {}", shape[1]),
                     [=](Sketch& sketch) { draft_fold(sketch, shape[1]); }, false});
  }
  for (const Shape& shape : kLarge) {
    add(shape, false, false);
    add(shape, true, true);
  }
}

}  // namespace trainer
