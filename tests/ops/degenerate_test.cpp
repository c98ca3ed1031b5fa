// SPDX-License-Identifier: Apache-2.0
// Shapes at the edge of what there is: images of one to three pixels a side, under kernels that are larger.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include "tests/catch.h"

#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/channels.h"
#include "core/graph/ops/concat.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/cross_entropy.h"
#include "core/graph/ops/dropout.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/pool2d.h"
#include "core/graph/ops/resample2d.h"
#include "core/graph/ops/stochastic_depth.h"
#include "core/graph/ops/unary.h"
#include "tests/ops/functions.h"
#include "tests/ops/harness.h"
#include "tests/sanitized.h"

using namespace trainer;

namespace {

constexpr uint64_t kDraws = few_or_all<uint64_t>(200, 2000);

/// Draws shapes and settings; the sketch's own stream fills in the values.
class Drawn {
 public:
  explicit Drawn(Sketch& sketch) : sketch_(sketch), build_(sketch.build()) {}

  int64_t below(int64_t bound) { return sketch_.random().next_below(bound); }
  int64_t from_to(int64_t least, int64_t most) { return least + below(most - least + 1); }
  /// A tensor with one channel fits more layouts than others do.
  int64_t channels() { return below(4) == 0 ? 1 : from_to(1, 17); }
  /// Of two samples at least: the loss of a single number is zero, whatever the number.
  Shape image() {
    const int64_t samples = from_to(2, 9), largest = below(4) == 0 ? 1 : 3;
    return {samples, channels(), from_to(1, largest), from_to(1, largest)};
  }
  /// Positive, so that short sums do not cancel.
  TensorId parameter(const Shape& shape, Values kind = Values::positive) {
    return sketch_.parameter(fmt::format("p{}", parameters_++), shape, kind);
  }
  /// With outputs about as large as inputs, or the loss would be flat.
  TensorId weight(const Shape& shape) {
    const TensorId w = parameter(shape);
    for (float& value : sketch_.values[fmt::format("p{}", parameters_ - 1)])
      value *= static_cast<float>(shape[0]) / static_cast<float>(numel(shape));
    return w;
  }
  Builder& build() { return build_; }
  Sketch& sketch() { return sketch_; }

  /// Padding below the kernel's size; a window always fits.
  Conv2dGeometry geometry(const Shape& x, int64_t largest_kernel, bool dilates) {
    Conv2dGeometry g;
    do {
      for (size_t i : {0, 1}) {
        g.kernel[i] = from_to(1, largest_kernel);
        g.stride[i] = from_to(1, 3);
        g.dilation[i] = dilates ? from_to(1, 2) : 1;
        g.padding[i] = below(dilates ? g.kernel[i] : g.kernel[i] / 2 + 1);
      }
    } while (std::ranges::min(g.output({x[2], x[3]})) < 1);
    return g;
  }

  void end(TensorId y) {
    sketch_.output("y", y);
    sketch_.loss(y);
  }

 private:
  Sketch& sketch_;
  Builder& build_;
  int parameters_ = 0;
};

/// A divisor of both numbers of channels.
int64_t groups_of(Drawn& drawn, int64_t in, int64_t out) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= std::min(in, out); ++d) {
    if (in % d == 0 && out % d == 0) divisors.push_back(d);
  }
  return divisors[static_cast<size_t>(drawn.below(static_cast<int64_t>(divisors.size())))];
}

void convolution(Drawn& drawn) {
  const Shape x = drawn.image();
  Conv2dGeometry g = drawn.geometry(x, 5, true);
  const int64_t out = drawn.below(3) == 0 ? x[1] : drawn.channels();
  if (drawn.below(2) == 0) g.groups = groups_of(drawn, x[1], out);
  const TensorId bias = drawn.below(2) == 0 ? kNone : drawn.parameter({out});
  const TensorId w = drawn.weight({out, x[1] / g.groups, g.kernel[0], g.kernel[1]});
  TensorId y = drawn.build().emit<Conv2d>({drawn.parameter(x), w, bias}, g);
  if (drawn.below(4) == 0) y = drawn.build().emit<Unary>({y}, elementwise::Function(elementwise::Relu{}));
  drawn.end(y);
}

void transposed_convolution(Drawn& drawn) {
  const Shape large = drawn.image();
  const Conv2dGeometry g = drawn.geometry(large, 5, true);
  const Size2d small = g.output({large[2], large[3]});
  const int64_t in = drawn.channels();
  const TensorId x = drawn.parameter({large[0], in, small[0], small[1]});
  const TensorId w = drawn.weight({in, large[1], g.kernel[0], g.kernel[1]});
  drawn.end(drawn.build().emit<Conv2dBackwardData>({x, w}, g, large));
}

void largest_of_windows(Drawn& drawn) {
  const Shape x = drawn.image();
  const Conv2dGeometry g = drawn.geometry(x, 5, false);
  drawn.end(drawn.build().emit<MaxPool2d>({drawn.parameter(x, Values::distinct)}, g));
}

void mean_of_windows(Drawn& drawn) {
  const Shape x = drawn.image();
  drawn.end(drawn.build().emit<AvgPool2d>({drawn.parameter(x)}, drawn.geometry(x, 5, false)));
}

void linear(Drawn& drawn) {
  const int64_t in = drawn.channels(), out = drawn.channels();
  const Shape x = drawn.below(2) == 0 ? Shape{drawn.from_to(2, 3), in}
                                      : Shape{drawn.from_to(2, 3), drawn.from_to(1, 3), in};
  const TensorId bias = drawn.below(2) == 0 ? kNone : drawn.parameter({out});
  drawn.end(drawn.build().emit<Linear>({drawn.parameter(x), drawn.weight({out, in}), bias}));
}

/// If a channel has few values, its gradients are differences of nearly equal numbers, the more so the
/// smaller epsilon is; f32 keeps three digits of them.
void batch_norm(Drawn& drawn) {
  const Shape x = drawn.image();
  const TensorId gamma = drawn.parameter({x[1]}, Values::positive), beta = drawn.parameter({x[1]});
  drawn.end(drawn.build().emit<BatchNorm>({drawn.parameter(x, Values::normal), gamma, beta, kNone}, 1.0));
}

void function(Drawn& drawn) {
  const auto chosen = drawn.below(static_cast<int64_t>(std::variant_size_v<elementwise::Function>));
  const TensorId x = drawn.parameter(drawn.image(), Values::off_zero);
  int64_t index = 0;
  for_each_functor([&](auto functor) {
    if (index++ == chosen) drawn.end(drawn.build().emit<Unary>({x}, elementwise::Function(functor)));
  });
}

void binary(Drawn& drawn) {
  const Shape shape = drawn.image();
  const TensorId a = drawn.parameter(shape), b = drawn.parameter(shape);
  drawn.end(drawn.build().emit<Binary>({a, b}, drawn.below(2) == 0 ? Binary::Kind::add : Binary::Kind::mul));
}

void concat(Drawn& drawn) {
  const Shape first = drawn.image();
  Shape second = first;
  second[1] = drawn.channels();
  const TensorId a = drawn.parameter(first), b = drawn.parameter(second);
  drawn.end(drawn.build().emit<Concat>(std::vector<TensorId>{a, b}, 1));
}

void by_channel(Drawn& drawn) {
  const Shape x = drawn.image();
  const TensorId image = drawn.parameter(x);
  if (drawn.below(2) == 0)
    drawn.end(drawn.build().emit<AddChannels>({image, drawn.parameter({x[1]})}));
  else
    drawn.end(drawn.build().emit<ScaleChannels>({image, drawn.parameter({x[0], x[1], 1, 1})}));
}

void resample(Drawn& drawn) {
  constexpr std::array kRules = {Resampling::nearest, Resampling::bilinear, Resampling::bilinear_aligned,
                                 Resampling::average};
  const TensorId x = drawn.parameter(drawn.image());
  const Resampling rule = kRules[static_cast<size_t>(drawn.below(kRules.size()))];
  drawn.end(drawn.build().emit<Resample2d>({x}, rule, Size2d{drawn.from_to(1, 5), drawn.from_to(1, 5)}));
}

void dropped(Drawn& drawn) {
  const Shape shape = drawn.image();
  const TensorId x = drawn.parameter(shape);
  const TensorId samples = drawn.sketch().integers("samples", shape[0], 1000);
  const TensorId step = drawn.sketch().integers("step", 1, 1000);
  const DropoutSettings rule{.p = 0.3, .key = 5};
  if (drawn.below(2) == 0)
    drawn.end(drawn.build().emit<Dropout>({x, samples, step}, rule));
  else
    drawn.end(drawn.build().emit<StochasticDepth>({x, samples, step}, rule));
}

void classified(Drawn& drawn) {
  const int64_t samples = drawn.from_to(1, 3), classes = drawn.from_to(2, 17);
  const bool by_pixel = drawn.below(2) == 0;
  const Size2d size{drawn.from_to(1, 3), drawn.from_to(1, 3)};
  const TensorId logits =
      drawn.parameter(by_pixel ? Shape{samples, classes, size[0], size[1]} : Shape{samples, classes});
  const Shape label_shape = by_pixel ? Shape{samples, size[0], size[1]} : Shape{samples};
  const TensorId labels = drawn.sketch().integers("labels", label_shape, classes);
  const TensorId weights = drawn.sketch().input("weights", {samples}, Values::positive);
  const double smoothing = drawn.below(2) == 0 ? 0.0 : 0.1;
  drawn.sketch().output("loss", drawn.build().emit<CrossEntropy>({logits, labels, weights}, smoothing));
}

void check_draws(void (*draw)(Drawn&), const Tolerances& tolerances = {}) {
  for (uint64_t seed = 1; seed <= kDraws; ++seed) {
    check_cpu(
        [&](Sketch& sketch) {
          Drawn drawn(sketch);
          draw(drawn);
        },
        seed, tolerances);
  }
}

}  // namespace

// oneDNN's gemm takes this tensor for channels last, although it has made it with the channels first.
TEST_CASE("degenerate convolutions of one channel and one pixel are right") {
  for (const int64_t side : {3, 5}) {
    for (const bool has_bias : {false, true}) {
      for (uint64_t seed = 1; seed <= 20; ++seed) {
        check_cpu(
            [&](Sketch& sketch) {
              Drawn drawn(sketch);
              const TensorId x = drawn.parameter({drawn.from_to(2, 9), 1, 1, 1});
              const TensorId w = drawn.parameter({1, 1, side, side});
              const TensorId bias = has_bias ? drawn.parameter({1}) : kNone;
              drawn.end(drawn.build().emit<Conv2d>(
                  {x, w, bias}, Conv2dGeometry{.kernel = {side, side}, .padding = {side / 2, side / 2}}));
            },
            seed);
      }
    }
  }
}

TEST_CASE("degenerate convolutions are right whatever their memory held") {
  check_draws(convolution);
}
TEST_CASE("degenerate transposed convolutions are right") {
  check_draws(transposed_convolution);
}
TEST_CASE("degenerate maxima of windows are right") {
  check_draws(largest_of_windows);
}
TEST_CASE("degenerate means of windows are right") {
  check_draws(mean_of_windows);
}
TEST_CASE("degenerate linear maps are right") {
  check_draws(linear);
}
TEST_CASE("degenerate batch normalisations are right") {
  check_draws(batch_norm, {.gradients = 1e-3});
}
TEST_CASE("degenerate functions are right") {
  check_draws(function);
}
TEST_CASE("degenerate sums and products are right") {
  check_draws(binary);
}
TEST_CASE("degenerate concatenations are right") {
  check_draws(concat);
}
TEST_CASE("degenerate biases and gates are right") {
  check_draws(by_channel);
}
TEST_CASE("degenerate resamplings are right") {
  check_draws(resample);
}
TEST_CASE("degenerate dropouts are right") {
  check_draws(dropped);
}
TEST_CASE("degenerate cross entropies are right") {
  check_draws(classified);
}
