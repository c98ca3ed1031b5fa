// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/batch_norm.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <stdexcept>

#include "core/graph/ops/binary.h"
#include "core/graph/ops/channels.h"
#include "core/graph/ops/reshape.h"

namespace trainer {
namespace {

/// Operations on each element of x, here and in the gradient: subtract, scale, add; the sums cost about the
/// same again.
constexpr double kForwardFlops = 8, kBackwardFlops = 12, kInferenceFlops = 2;

constexpr AttributeStyle kEpsStyle{.digits = 6};

/// Half of it is done by other nodes if moments are given.
double per_element(double flops, const TensorSpec& spec, bool is_measured = false) {
  return (is_measured ? flops / 2 : flops) * static_cast<double>(numel(spec.shape));
}

/// x is the first input; those in `which` have one number for each of its channels.
void expect_channels(std::span<const TensorSpec> inputs, std::initializer_list<size_t> which) {
  const Shape& x = inputs[0].shape;
  expect(x.size() == 4, "expected images (N, C, H, W), got " + to_string(x));
  for (const size_t i : which) {
    expect(inputs[i].shape == Shape{x[1]}, fmt::format("expected one number for each of {} channels, got {}",
                                                       x[1], to_string(inputs[i].shape)));
  }
}

/// The table of several ranks, if there is one.
void expect_table(std::span<const TensorSpec> inputs, size_t place, int64_t channels) {
  if (!is_given(inputs[place])) return;
  const Shape& table = inputs[place].shape;
  expect(table.size() == 3 && table[1] == 2 && table[2] == channels,
         fmt::format("expected two numbers of each of {} channels from each rank, got {}", channels,
                     to_string(table)));
  expect_type(inputs, {place}, DType::f32);
}

/// A constant for each channel of this input.
TensorId filled(const Backward& backward, size_t input, const char* name, double value) {
  const Shape channels = backward.shape(input);
  return backward.build.program().persistent(fmt::format("{}.{}", name, channels[0]), {channels, DType::f32},
                                             Role::constant,
                                             {.kind = Initial::Kind::fill, .a = value, .b = 0, .table = {}});
}
TensorId zero_channels(const Backward& backward, size_t input) {
  return filled(backward, input, "zeros", 0);
}
TensorId one_channels(const Backward& backward, size_t input) {
  return filled(backward, input, "ones", 1);
}

/// The sum over all of w (C, ...) that belongs to a channel.
TensorId sum_of_channels(Builder& build, TensorId w) {
  const Shape shape = build.shape(w);
  const Shape image{1, shape[0], numel(shape) / shape[0], 1};
  return build.emit<AddChannelsBackward>({build.emit<Reshape>({w}, image)});
}

}  // namespace

void BatchNorm::describe(AttributeVisitor& visit) const {
  visit("eps", eps, kEpsStyle);
  visit("relu", relu);
  if (std::isfinite(ceiling)) visit("ceiling", ceiling);
}

std::vector<TensorSpec> BatchNorm::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_channels(inputs, {kGamma, kBeta});
  expect_one_type(inputs, {kX, kResidual});
  expect_type(inputs, {kGamma, kBeta}, DType::f32);
  const Shape& x = inputs[kX].shape;
  expect(
      inputs[kResidual].shape.empty() || inputs[kResidual].shape == x,
      fmt::format("a residual of {} does not fit to {}", to_string(inputs[kResidual].shape), to_string(x)));
  const TensorSpec statistic{.shape = {x[1]}, .dtype = DType::f32};
  if (is_given(inputs[kSums]) || is_given(inputs[kSquares])) {
    expect(inputs[kSums] == statistic && inputs[kSquares] == statistic,
           fmt::format("expected two sums of each of {} channels", x[1]));
    expect(!is_given(inputs[kTable]), "moments are given once, in a table or as sums");
  }
  expect_table(inputs, kTable, x[1]);
  expect(x[0] * x[2] * x[3] > 1, "statistics need more than one value per channel; use a larger batch");
  std::vector<TensorSpec> outputs{inputs[kX], statistic, statistic};
  if (relu) outputs.push_back({.shape = x, .dtype = DType::u8});
  return outputs;
}

std::vector<TensorId> BatchNorm::gradient(const Backward& backward) const {
  const bool residual = backward.x(kResidual) != kNone;
  const auto op = std::make_shared<BatchNormBackward>(eps, relu, residual);
  const std::vector<TensorId> all =
      backward.build.emit_all(op, {backward.dy[kY], backward.x(kX), backward.x(kGamma), backward.y(kMean),
                                   backward.y(kVariance), relu ? backward.y(kMask) : kNone, kNone});
  std::vector<TensorId> gradients(kInputs, kNone);
  gradients[kX] = all[BatchNormBackward::kDx];
  gradients[kGamma] = all[BatchNormBackward::kDgamma];
  gradients[kBeta] = all[BatchNormBackward::kDbeta];
  if (residual) gradients[kResidual] = all[BatchNormBackward::kDresidual];
  return gradients;
}

double BatchNorm::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return per_element(kForwardFlops, inputs[kX], is_given(inputs[kTable]) || is_given(inputs[kSums]));
}

void BatchNormBackward::describe(AttributeVisitor& visit) const {
  visit("eps", eps, kEpsStyle);
  visit("relu", relu);
  visit("residual", residual);
}

std::vector<TensorSpec> BatchNormBackward::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_one_type(inputs, {kDy, kX, kOtherDy});
  expect_type(inputs, {kGamma, kMean, kVariance}, DType::f32);
  expect_table(inputs, kTable, inputs[kGamma].shape[0]);
  std::vector<TensorSpec> outputs{inputs[kX], inputs[kGamma], inputs[kGamma]};
  if (residual) outputs.push_back(inputs[kX]);
  return outputs;
}

double BatchNormBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return per_element(kBackwardFlops, inputs[kX], is_given(inputs[kTable]));
}

/// The first pass writes the masked dy, which is the residual's gradient; the second reads that instead of
/// either dy. So dx may overwrite the second dy. It may overwrite the first only if the masked dy is not
/// needed
/// there.
bool BatchNormBackward::in_place(size_t input, size_t output) const {
  if (input == kOtherDy) return output == kDx;
  return input == kDy && output == (residual ? kDresidual : kDx);
}

void BatchNormInference::describe(AttributeVisitor& visit) const {
  visit("eps", eps, kEpsStyle);
}

std::vector<TensorSpec> BatchNormInference::infer(std::span<const TensorSpec> inputs) const {
  expect_channels(inputs, {kGamma, kBeta, kMean, kVariance});
  expect_type(inputs, {kGamma, kBeta, kMean, kVariance}, DType::f32);
  return {inputs[kX]};
}

/// With s = 1 / sqrt(variance + eps): dx = dy * gamma * s, dgamma = sum of dy * (x - mean) * s, dbeta = sum
/// of dy. Both products with s are normalisations again, with a mean, shift or factor of 0 or 1.
std::vector<TensorId> BatchNormInference::gradient(const Backward& backward) const {
  const TensorId dy = backward.dy[kY], gamma = backward.x(kGamma), mean = backward.x(kMean),
                 variance = backward.x(kVariance), zeros = zero_channels(backward, kGamma);
  std::vector<TensorId> gradients(kInputs, kNone);
  if (backward.wanted[kX])
    gradients[kX] = backward.build.emit<BatchNormInference>({dy, gamma, zeros, zeros, variance}, eps);
  if (backward.wanted[kGamma]) {
    const TensorId x = backward.build.emit<BatchNormInference>(
        {backward.x(kX), one_channels(backward, kGamma), zeros, mean, variance}, eps);
    const TensorId products = backward.build.emit<Binary>({dy, x}, Binary::Kind::mul);
    gradients[kGamma] = backward.build.emit<AddChannelsBackward>({products});
  }
  if (backward.wanted[kBeta]) gradients[kBeta] = backward.build.emit<AddChannelsBackward>({dy});
  return gradients;
}

std::vector<ChannelLink> BatchNormInference::channel_links(std::span<const TensorSpec> /*inputs*/,
                                                           std::span<const TensorSpec> outputs) const {
  std::vector<ChannelLink> links = links_of_channels({kX}, outputs[kY].shape);
  links[0].places.push_back(channel_in(kGamma, 0, ChannelUse::scales));
  for (const size_t i : {kBeta, kMean, kVariance}) links[0].places.push_back(channel_in(i, 0));
  return links;
}

double BatchNormInference::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return per_element(kInferenceFlops, inputs[kX]);
}

void FoldBatchNorm::describe(AttributeVisitor& visit) const {
  visit("eps", eps, kEpsStyle);
}

std::vector<TensorSpec> FoldBatchNorm::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_type(inputs, {kWeight, kBias, kGamma, kBeta, kMean, kVariance}, DType::f32);
  return {inputs[kWeight], inputs[kGamma]};
}

/// With dw and db the gradients of the folded weight and bias: dweight = dw * s, dbias = db * s, dbeta = db,
/// dgamma = (sum of dw * w + db * (bias - mean)) / sqrt(variance + eps). The products with s are foldings
/// again, with a gamma of 1 for the last, and a mean or shift of 0.
std::vector<TensorId> FoldBatchNorm::gradient(const Backward& backward) const {
  Builder& build = backward.build;
  const TensorId dw = backward.dy[kFoldedWeight], db = backward.dy[kFoldedBias],
                 zeros = zero_channels(backward, kGamma);
  if (dw == kNone || db == kNone)
    throw std::logic_error("a folded normalisation has a gradient only if weight and bias are both used");
  const auto op = std::make_shared<FoldBatchNorm>(eps);
  const auto scaled = build.emit_all(op, {dw, db, backward.x(kGamma), zeros, zeros, backward.x(kVariance)});
  std::vector<TensorId> gradients(kInputs, kNone);
  gradients[kWeight] = scaled[kFoldedWeight];
  if (backward.x(kBias) != kNone) gradients[kBias] = scaled[kFoldedBias];
  gradients[kBeta] = db;
  if (!backward.wanted[kGamma]) return gradients;
  const auto unit =
      build.emit_all(op, {backward.x(kWeight), backward.x(kBias), one_channels(backward, kGamma), zeros,
                          backward.x(kMean), backward.x(kVariance)});
  const auto times = [&](TensorId a, TensorId b) { return build.emit<Binary>({a, b}, Binary::Kind::mul); };
  gradients[kGamma] = build.emit<Binary>(
      {sum_of_channels(build, times(dw, unit[kFoldedWeight])), times(db, unit[kFoldedBias])},
      Binary::Kind::add);
  return gradients;
}

}  // namespace trainer
