// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/batch_norm.h"

#include <fmt/format.h>

#include <cmath>

#include "core/graph/ops/binary.h"
#include "core/graph/ops/channels.h"

namespace trainer {
namespace {

/// Operations on each element of x, here and in the gradient: subtract, scale, add; the sums about as much
/// again.
constexpr double kForwardFlops = 8, kBackwardFlops = 12, kInferenceFlops = 2;

constexpr AttributeStyle kEpsStyle{.digits = 6};

/// Half of it is done by other nodes where moments are given.
double per_element(double flops, const TensorSpec& spec, bool is_measured = false) {
  return (is_measured ? flops / 2 : flops) * static_cast<double>(numel(spec.shape));
}

void expect_channels(std::span<const TensorSpec> inputs, size_t first, size_t last) {
  const Shape& x = inputs[0].shape;
  expect(x.size() == 4, "expected images (N, C, H, W), got " + to_string(x));
  for (size_t i = first; i < last; ++i) {
    expect(inputs[i].shape == Shape{x[1]}, fmt::format("expected one number for each of {} channels, got {}",
                                                       x[1], to_string(inputs[i].shape)));
  }
}

/// The table of several ranks, where there is one.
void expect_table(std::span<const TensorSpec> inputs, size_t place, int64_t channels) {
  if (inputs.size() <= place) return;
  const Shape& table = inputs[place].shape;
  expect(table.size() == 3 && table[1] == 2 && table[2] == channels,
         fmt::format("expected two numbers of each of {} channels from each rank, got {}", channels,
                     to_string(table)));
  expect_type(inputs, {place}, DType::f32);
}

}  // namespace

void BatchNorm::describe(AttributeVisitor& visit) const {
  visit("eps", eps, kEpsStyle);
  visit("relu", relu);
  if (std::isfinite(ceiling)) visit("ceiling", ceiling);
}

std::vector<TensorSpec> BatchNorm::infer(std::span<const TensorSpec> inputs) const {
  expect_channels(inputs, 1, 3);
  expect_one_type(inputs, {0, 3});
  expect_type(inputs, {1, 2}, DType::f32);
  const Shape& x = inputs[0].shape;
  expect(inputs[3].shape.empty() || inputs[3].shape == x,
         fmt::format("a residual of {} does not fit to {}", to_string(inputs[3].shape), to_string(x)));
  const TensorSpec statistic{.shape = {x[1]}, .dtype = DType::f32};
  if (inputs.size() > 5) {
    expect(inputs[4] == statistic && inputs[5] == statistic,
           fmt::format("expected two sums of each of {} channels", x[1]));
  } else {
    expect_table(inputs, 4, x[1]);
  }
  expect(x[0] * x[2] * x[3] > 1, "statistics need more than one value per channel; use a larger batch");
  std::vector<TensorSpec> outputs{inputs[0], statistic, statistic};
  if (relu) outputs.push_back({.shape = x, .dtype = DType::u8});
  return outputs;
}

std::vector<TensorId> BatchNorm::gradient(const Backward& backward) const {
  const bool residual = backward.x(3) != kNone;
  const auto op = std::make_shared<BatchNormBackward>(eps, relu, residual);
  const std::vector<TensorId> all =
      backward.build.emit_all(op, {backward.dy[0], backward.x(0), backward.x(1), backward.y(1), backward.y(2),
                                   relu ? backward.y(3) : kNone, kNone});
  return {all[0], all[1], all[2], residual ? all[3] : kNone};
}

double BatchNorm::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return per_element(kForwardFlops, inputs[0], inputs.size() > 4);
}

void BatchNormBackward::describe(AttributeVisitor& visit) const {
  visit("eps", eps, kEpsStyle);
  visit("relu", relu);
  visit("residual", residual);
}

std::vector<TensorSpec> BatchNormBackward::infer(std::span<const TensorSpec> inputs) const {
  expect_one_type(inputs, {0, 1, 6});
  expect_type(inputs, {2, 3, 4}, DType::f32);
  expect_table(inputs, 7, inputs[2].shape[0]);
  std::vector<TensorSpec> outputs{inputs[1], inputs[2], inputs[2]};
  if (residual) outputs.push_back(inputs[1]);
  return outputs;
}

double BatchNormBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return per_element(kBackwardFlops, inputs[1], inputs.size() > 7);
}

/// The masked dy, which is the residual's gradient, is written in the first walk; the second reads that
/// instead of either dy. So dx may lie where the second dy was, and where the first was only if nothing
/// masked is wanted there.
bool BatchNormBackward::in_place(size_t input, size_t output) const {
  if (input == 6) return output == 0;
  return input == 0 && output == (residual ? 3u : 0u);
}

void BatchNormInference::describe(AttributeVisitor& visit) const {
  visit("eps", eps, kEpsStyle);
}

std::vector<TensorSpec> BatchNormInference::infer(std::span<const TensorSpec> inputs) const {
  expect_channels(inputs, 1, 5);
  expect_type(inputs, {1, 2, 3, 4}, DType::f32);
  return {inputs[0]};
}

/// With s = 1 / sqrt(variance + eps): dx = dy * gamma * s, dgamma = sum of dy * (x - mean) * s, dbeta = sum
/// of dy. Both products with s are normalisations again, with a mean, shift or factor of 0 or 1.
std::vector<TensorId> BatchNormInference::gradient(const Backward& backward) const {
  const TensorId dy = backward.dy[0], gamma = backward.x(1), mean = backward.x(3), variance = backward.x(4);
  const Shape channels = backward.shape(1);
  auto filled = [&](const char* name, double value) {
    return backward.build.program().persistent(
        fmt::format("{}.{}", name, channels[0]), {channels, DType::f32}, Role::constant,
        {.kind = Initial::Kind::fill, .a = value, .b = 0, .table = {}});
  };
  const TensorId zeros = filled("zeros", 0);
  std::vector<TensorId> gradients(5, kNone);
  if (backward.wanted[0])
    gradients[0] = backward.build.emit<BatchNormInference>({dy, gamma, zeros, zeros, variance}, eps);
  if (backward.wanted[1]) {
    const TensorId x = backward.build.emit<BatchNormInference>(
        {backward.x(0), filled("ones", 1), zeros, mean, variance}, eps);
    const TensorId products = backward.build.emit<Binary>({dy, x}, Binary::Kind::mul);
    gradients[1] = backward.build.emit<AddChannelsBackward>({products});
  }
  if (backward.wanted[2]) gradients[2] = backward.build.emit<AddChannelsBackward>({dy});
  return gradients;
}

double BatchNormInference::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return per_element(kInferenceFlops, inputs[0]);
}

void FoldBatchNorm::describe(AttributeVisitor& visit) const {
  visit("eps", eps, kEpsStyle);
}

std::vector<TensorSpec> FoldBatchNorm::infer(std::span<const TensorSpec> inputs) const {
  expect_type(inputs, {0, 1, 2, 3, 4, 5}, DType::f32);
  return {inputs[0], inputs[2]};
}

}  // namespace trainer
