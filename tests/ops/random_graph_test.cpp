// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include "tests/catch.h"

#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/channels.h"
#include "core/graph/ops/concat.h"
#include "core/graph/ops/dropout.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/pool2d.h"
#include "core/graph/ops/resample2d.h"
#include "core/graph/ops/reshape.h"
#include "core/graph/ops/scale_features.h"
#include "core/graph/ops/stochastic_depth.h"
#include "core/graph/ops/tokens.h"
#include "core/graph/ops/unary.h"
#include "tests/ops/functions.h"
#include "tests/ops/harness.h"
#include "tests/sanitized.h"

using namespace trainer;

namespace {

/// Grows a network by operations on its existing tensors; every image and feature may be read again.
class RandomNetwork {
 public:
  explicit RandomNetwork(Sketch& sketch) : sketch_(sketch), build_(sketch.build()) {
    batch_ = 1 + below(3);
    samples_ = sketch.integers("samples", batch_, 1000);
    step_ = sketch.integers("step", 1, 1000);
    images_.push_back(sketch.input("x", {batch_, 1 + below(4), 4 + below(6), 4 + below(6)}));
  }

  void grow(int operations) {
    for (int i = 0; i < operations; ++i) add_one();
    TensorId total = kNone;
    for (TensorId image : images_) total = sum(total, head(image));
    sketch_.output("logits", total);
    sketch_.loss(total);
  }

 private:
  static constexpr int64_t kLargest = 8;  ///< dimension of the enlarged tensor

  int64_t below(int64_t bound) { return sketch_.random().next_below(bound); }
  TensorId any() { return images_[static_cast<size_t>(below(static_cast<int64_t>(images_.size())))]; }

  void add_one() {
    const TensorId x = any();
    images_.push_back(one_more(x));
  }

  TensorId one_more(TensorId x) {
    switch (below(15)) {
      case 0:
      case 1:
        return convolution(x);
      case 2:
      case 3:
        return function(x);
      case 4:
        return pool(x);
      case 5:
        return binary(x);
      case 6:
        return concat(x);
      case 7:
        return build_.emit<Dropout>({x, samples_, step_}, DropoutSettings{.p = 0.2, .key = 3});
      case 8:
        return build_.emit<StochasticDepth>({x, samples_, step_}, DropoutSettings{.p = 0.2, .key = 4});
      case 9:
        return depthwise(x);
      case 10:
        return resample(x);
      case 11:
        return transposed(x);
      case 12:
        return norm(x);
      case 13:
        return tokens(x);
      default:
        return below(2) == 0 ? squeeze(x) : reshape(x);
    }
  }

  /// A weight with outputs about as large as its inputs.
  TensorId weight(const Shape& shape) {
    const std::string name = fmt::format("w{}", weights_++);
    const TensorId w = sketch_.parameter(name, shape);
    const auto scale = 1 / std::sqrt(static_cast<float>(numel(shape) / shape[0]));
    for (float& value : sketch_.values[name]) value *= scale;
    return w;
  }

  TensorId convolution(TensorId x) {
    const Shape shape = build_.shape(x);
    constexpr int64_t kChannels[] = {1, 3, 8, 16, 17, 32};
    const int64_t side = below(2) == 0 ? 1 : 3, out = kChannels[below(6)], stride = 1 + below(2);
    const Conv2dGeometry geometry{
        .kernel = {side, side}, .stride = {stride, stride}, .padding = {side / 2, side / 2}};
    const TensorId w = weight({out, shape[1], side, side});
    const TensorId bias = below(2) == 0 ? kNone : sketch_.parameter(fmt::format("b{}", weights_++), {out});
    return build_.emit<Conv2d>({x, w, bias}, geometry);
  }

  TensorId depthwise(TensorId x) {
    const int64_t channels = build_.shape(x)[1], stride = 1 + below(2);
    const Conv2dGeometry geometry{
        .kernel = {3, 3}, .stride = {stride, stride}, .padding = {1, 1}, .groups = channels};
    return build_.emit<Conv2d>({x, weight({channels, 1, 3, 3}), kNone}, geometry);
  }

  TensorId transposed(TensorId x) {
    const Shape shape = build_.shape(x);
    constexpr int64_t kChannels[] = {1, 5, 16, 17};
    const int64_t out = kChannels[below(4)];
    if (shape[2] > kLargest || shape[3] > kLargest) return function(x);
    const TensorId w = weight({shape[1], out, 2, 2});
    const TensorId b = sketch_.parameter(fmt::format("b{}", weights_++), {out});
    const Conv2dGeometry geometry{.kernel = {2, 2}, .stride = {2, 2}};
    const Shape large{shape[0], out, 2 * shape[2], 2 * shape[3]};
    return build_.emit<AddChannels>({build_.emit<Conv2dBackwardData>({x, w}, geometry, large), b});
  }

  TensorId resample(TensorId x) {
    constexpr Resampling kRules[] = {Resampling::nearest, Resampling::bilinear, Resampling::bilinear_aligned,
                                     Resampling::average};
    return build_.emit<Resample2d>({x}, kRules[below(4)], Size2d{1 + below(kLargest), 1 + below(kLargest)});
  }

  /// After a tanh: if a bias only shifts a channel, its gradient is nothing but rounding.
  /// Of several channels: the sum of a single one's gradients may be a thousandth of its terms.
  TensorId norm(TensorId x) {
    const Shape shape = build_.shape(x);
    if (shape[1] == 1 || shape[0] * shape[2] * shape[3] < 16) return function(x);
    const TensorId gamma = sketch_.parameter(fmt::format("b{}", weights_++), {shape[1]}, Values::positive);
    const TensorId beta = sketch_.parameter(fmt::format("b{}", weights_++), {shape[1]});
    const TensorId bent = build_.emit<Unary>({x}, elementwise::Function(elementwise::Tanh{}));
    const TensorId w = weight({shape[1], shape[1], 3, 3});
    const TensorId y =
        build_.emit<Conv2d>({bent, w, kNone}, Conv2dGeometry{.kernel = {3, 3}, .padding = {1, 1}});
    return build_.emit<BatchNorm>({y, gamma, beta, kNone}, 1e-2);
  }

  TensorId squeeze(TensorId x) {
    const Shape shape = build_.shape(x);
    const TensorId mean = build_.emit<AvgPool2d>({x}, Conv2dGeometry{.kernel = {shape[2], shape[3]}});
    const TensorId dense =
        build_.emit<Conv2d>({mean, weight({shape[1], shape[1], 1, 1}), kNone}, Conv2dGeometry{});
    const TensorId gate = build_.emit<Unary>({dense}, elementwise::Function(elementwise::Sigmoid{}));
    return build_.emit<ScaleChannels>({x, gate});
  }

  TensorId function(TensorId x) {
    TensorId y = kNone;
    const auto chosen = below(static_cast<int64_t>(std::variant_size_v<elementwise::Function>));
    int64_t index = 0;
    for_each_functor([&](auto functor) {
      if (index++ == chosen) y = build_.emit<Unary>({x}, elementwise::Function(functor));
    });
    return y;
  }

  TensorId pool(TensorId x) {
    const Shape shape = build_.shape(x);
    if (shape[2] < 2 || shape[3] < 2) return function(x);
    const Conv2dGeometry two{.kernel = {2, 2}, .stride = {2, 2}};
    const Conv2dGeometry three{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
    const Conv2dGeometry& geometry = below(2) == 0 ? two : three;
    return below(2) == 0 ? build_.emit<MaxPool2d>({x}, geometry) : build_.emit<AvgPool2d>({x}, geometry);
  }

  TensorId binary(TensorId x) {
    const Shape shape = build_.shape(x);
    TensorId other = x;
    for (TensorId image : images_) {
      if (build_.shape(image) == shape) other = image;
    }
    if (below(2) == 0) return build_.emit<Binary>({x, other}, Binary::Kind::add);
    const TensorId gate = build_.emit<Unary>({other}, elementwise::Function(elementwise::Tanh{}));
    return build_.emit<Binary>({gate, x}, Binary::Kind::mul);
  }

  TensorId concat(TensorId x) {
    const Shape shape = build_.shape(x);
    std::vector<TensorId> parts{x};
    for (TensorId image : images_) {
      Shape other = build_.shape(image);
      other[1] = shape[1];
      if (other == shape && parts.size() < 3) parts.push_back(image);
    }
    return build_.emit<Concat>(parts, 1);
  }

  TensorId reshape(TensorId x) {
    const Shape shape = build_.shape(x);
    return build_.emit<Reshape>({x}, Shape{shape[0], shape[2], shape[1], shape[3]});
  }

  /// Pixels as tokens, perhaps with features scaled, and as pixels of images that may be turned.
  TensorId tokens(TensorId x) {
    const Shape shape = build_.shape(x);
    TensorId y = build_.emit<ImagesToTokens>({x});
    if (below(2) == 0) {
      const TensorId factors =
          sketch_.parameter(fmt::format("b{}", weights_++), {shape[1]}, Values::positive);
      y = build_.emit<ScaleFeatures>({y, factors});
    }
    const Size2d turned{shape[3], shape[2]}, same{shape[2], shape[3]};
    return build_.emit<TokensToImages>({y}, below(2) == 0 ? turned : same);
  }

  TensorId head(TensorId image) {
    const int64_t features = numel(build_.shape(image)) / batch_;
    const TensorId flat = build_.emit<Reshape>({image}, Shape{batch_, features});
    return build_.emit<Linear>(
        {flat, weight({7, features}), sketch_.parameter(fmt::format("b{}", weights_++), {7})});
  }

  TensorId sum(TensorId a, TensorId b) {
    return a == kNone ? b : build_.emit<Binary>({a, b}, Binary::Kind::add);
  }

  Sketch& sketch_;
  Builder& build_;
  int64_t batch_ = 1;
  int weights_ = 0;
  TensorId samples_ = kNone, step_ = kNone;
  std::vector<TensorId> images_;
};

}  // namespace

TEST_CASE("random networks in bf16 train alike on the CPU and in the reference that rounds") {
  for (uint64_t seed = 1; seed <= few_or_all<uint64_t>(20, 60); ++seed) {
    check_bf16([](Sketch& sketch) { RandomNetwork(sketch).grow(5); }, seed);
  }
}

TEST_CASE("random networks train alike on the CPU and in the reference") {
  for (uint64_t seed = 1; seed <= few_or_all<uint64_t>(60, 200); ++seed) {
    check_cpu([](Sketch& sketch) { RandomNetwork(sketch).grow(7); }, seed);
  }
}
