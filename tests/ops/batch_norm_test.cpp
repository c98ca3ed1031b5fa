// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/batch_norm.h"

#include <fmt/format.h>
#include <limits>
#include <stdexcept>

#include "tests/catch.h"

#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/lerp.h"
#include "core/graph/ops/unary.h"
#include "cpu/backend.h"
#include "tests/ops/harness.h"

using namespace trainer;

namespace {

const elementwise::Function kRelu = elementwise::Relu{};

const std::vector<Shape> kShapes = {{2, 1, 1, 1},  {3, 5, 1, 1},   {1, 2, 3, 5},
                                    {2, 16, 4, 4}, {3, 17, 5, 3},  {2, 33, 7, 7},
                                    {4, 32, 9, 5}, {1, 3, 67, 61}, {5, 8, 3, 3}};

/// A convolution in front gives x the blocked layout that suits the CPU best.
TensorId blocked(Sketch& sketch, const std::string& name, const Shape& shape) {
  const TensorId x = sketch.parameter(name, shape);
  const TensorId w = sketch.parameter(name + ".w", {shape[1], shape[1], 1, 1});
  return sketch.build().emit<Conv2d>({x, w, kNone}, Conv2dGeometry{});
}

constexpr double kNoCeiling = std::numeric_limits<double>::infinity();

TensorId normalised(Sketch& sketch, TensorId x, TensorId residual, bool relu, const std::string& prefix = "",
                    double ceiling = kNoCeiling) {
  const Shape channels{sketch.build().shape(x)[1]};
  const TensorId gamma = sketch.parameter(prefix + "gamma", channels, Values::positive);
  const TensorId beta = sketch.parameter(prefix + "beta", channels);
  const auto op = std::make_shared<BatchNorm>(1e-3, relu, ceiling);
  const auto y = sketch.build().emit_all(op, {x, gamma, beta, residual});
  sketch.output(prefix + "mean", y[1]);
  sketch.output(prefix + "variance", y[2]);
  return y[0];
}

void draft(Sketch& sketch, const Shape& shape, bool blocks, bool residual, bool relu,
           double ceiling = kNoCeiling) {
  const TensorId x = blocks ? blocked(sketch, "x", shape) : sketch.parameter("x", shape);
  const TensorId r = !residual ? kNone : blocks ? blocked(sketch, "r", shape) : sketch.parameter("r", shape);
  const TensorId y = normalised(sketch, x, r, relu, "", ceiling);
  sketch.output("y", y);
  sketch.loss(y);
}

}  // namespace

TEST_CASE("batch normalisation has the right values and gradients, in plain and blocked layouts") {
  for (const Shape& shape : kShapes) {
    for (const bool blocks : {false, true}) {
      for (const bool residual : {false, true}) {
        // Two values of a channel are always normalised to +1 and -1: only noise passes back to x.
        const Tolerances tolerances{.differences = 1e-5};
        check_program(
            fmt::format("{} blocks {} residual {}", to_string(shape), blocks, residual),
            [&](Sketch& sketch) { draft(sketch, shape, blocks, residual, false); }, 2, tolerances);
      }
    }
  }
}

TEST_CASE("with relu in it, it equals a batch normalisation, a sum and a relu, which may have a ceiling") {
  for (const Shape& shape : kShapes) {
    for (const bool residual : {false, true}) {
      INFO(to_string(shape) << " residual " << residual);
      for (uint64_t seed : {1, 2, 3}) {
        for (const double ceiling : {kNoCeiling, 0.7}) {
          auto with_relu = [&](Sketch& sketch) {
            draft(sketch, shape, seed % 2 == 0, residual, true, ceiling);
          };
          check_cpu(with_relu, seed);
        }
      }
    }
  }
}

TEST_CASE("large images, which are processed in several pieces and groups of blocks, have the same values") {
  for (const Shape& shape : {Shape{2, 49, 61, 47}, Shape{1, 3, 190, 181}}) {
    for (const bool blocks : {false, true}) {
      INFO(to_string(shape) << " blocks " << blocks);
      check_cpu([&](Sketch& sketch) { draft(sketch, shape, blocks, true, true); }, 1);
    }
  }
}

TEST_CASE("a residual block trains alike with its sums and relus fused and without") {
  for (const Shape& shape : kShapes) {
    if (numel(shape) / shape[1] <= 3)
      continue;  // with so few values little more than rounding remains of a gradient
    INFO(to_string(shape));
    auto block = [&](Sketch& sketch) {
      const TensorId x = blocked(sketch, "x", shape);
      const TensorId first = sketch.build().emit<Unary>({normalised(sketch, x, kNone, false)}, kRelu);
      const TensorId w = sketch.parameter("w", {shape[1], shape[1], 1, 1});
      const TensorId branch = sketch.build().emit<Conv2d>({first, w, kNone}, Conv2dGeometry{});
      const TensorId second = normalised(sketch, branch, kNone, false, "second.");
      const TensorId sum = sketch.build().emit<Binary>({second, first}, Binary::Kind::add);
      const TensorId y = sketch.build().emit<Unary>({sum}, kRelu);
      sketch.output("y", y);
      sketch.loss(y);
    };
    for (uint64_t seed : {1, 2, 3}) check_cpu(block, seed);
  }
}

TEST_CASE("with statistics that are given it is a scale and a shift, alone or in a convolution's weights") {
  for (const int64_t groups : {1, 2, 34}) {
    for (const bool bias : {false, true}) {
      auto draft = [&](Sketch& sketch) {
        const int64_t channels = 34;
        const TensorId x = sketch.input("x", {2, 34, 5, 6});
        const TensorId w = sketch.parameter("w", {channels, 34 / groups, 3, 3});
        const TensorId b = bias ? sketch.parameter("b", {channels}) : kNone;
        for (const TensorId id : {w, b}) {  // tensors that get a gradient are not folded
          if (id != kNone) sketch.program.tensors[static_cast<size_t>(id)].frozen = true;
        }
        TensorId y =
            sketch.build().emit<Conv2d>({x, w, b}, Conv2dGeometry{.kernel = {3, 3}, .groups = groups});
        const std::vector<TensorId> given{y, sketch.input("gamma", {channels}),
                                          sketch.input("beta", {channels}), sketch.input("mean", {channels}),
                                          sketch.input("variance", {channels}, Values::positive)};
        y = sketch.build().emit<BatchNormInference>(given, 1e-3);
        sketch.output("y", sketch.build().emit<Unary>({y}, kRelu));
        sketch.loss(sketch.parameter("p", {3}));
      };
      for (uint64_t seed : {1, 2}) check_cpu(draft, seed);
    }
  }
}

TEST_CASE("with statistics that are given it has gradients too, folded away nowhere") {
  for (const Shape& shape : kShapes) {
    for (const bool blocks : {false, true}) {
      check_program(fmt::format("{} blocks {}", to_string(shape), blocks), [&](Sketch& sketch) {
        const Shape channels{shape[1]};
        const TensorId x = blocks ? blocked(sketch, "x", shape) : sketch.parameter("x", shape);
        const std::vector<TensorId> given{x, sketch.parameter("gamma", channels, Values::positive),
                                          sketch.parameter("beta", channels), sketch.input("mean", channels),
                                          sketch.input("variance", channels, Values::positive)};
        const TensorId y = sketch.build().emit<BatchNormInference>(given, 1e-3);
        sketch.output("y", y);
        sketch.loss(y);
      });
    }
  }
}

TEST_CASE("a folded normalisation has gradients: weights, bias, gamma and beta") {
  for (const Shape& shape : {Shape{1, 1, 1, 1}, Shape{5, 3, 3, 3}, Shape{33, 7, 1, 1}, Shape{4, 1, 5, 3}}) {
    for (const bool has_bias : {false, true}) {
      check_program(fmt::format("fold {} bias {}", to_string(shape), has_bias), [&](Sketch& sketch) {
        const Shape channels{shape[0]};
        const std::vector<TensorId> given{
            sketch.parameter("w", shape),        has_bias ? sketch.parameter("b", channels) : kNone,
            sketch.parameter("gamma", channels), sketch.parameter("beta", channels),
            sketch.input("mean", channels),      sketch.input("variance", channels, Values::positive)};
        const auto folded = sketch.build().emit_all(std::make_shared<FoldBatchNorm>(1e-3), given);
        const TensorId x = sketch.input("x", {2, shape[1], 5, 5});
        const TensorId y = sketch.build().emit<Conv2d>({x, folded[0], folded[1]},
                                                       Conv2dGeometry{.kernel = {shape[2], shape[3]}});
        sketch.output("y", y);
        sketch.loss(y);
      });
    }
  }
}

TEST_CASE("a running average takes its share of what is new") {
  check_program("lerp", [](Sketch& sketch) {
    const TensorId old = sketch.input("old", {37}), fresh = sketch.input("fresh", {37});
    sketch.output("y", sketch.build().emit<Lerp>({old, fresh}, 0.1, 37.0 / 36));
    sketch.loss(sketch.parameter("p", {3}));
  });
}

TEST_CASE("the CPU refuses sums that it would read as a table, and shapes of sums are checked") {
  const BatchNorm norm(1e-5);
  const TensorSpec x{{2, 3, 4, 4}, DType::f32}, channel{{3}, DType::f32}, other{{4}, DType::f32};
  OpContext context{.op = norm, .inputs = {x, channel, channel, {}, {}, channel, channel}, .outputs = {}};
  context.outputs = norm.infer(context.inputs);
  const auto cpu = make_cpu_backend(1);
  CHECK(cpu.planner->why_not(context).value_or("") == "batch normalisation on the CPU measures for itself");
  context.inputs[BatchNorm::kSums] = context.inputs[BatchNorm::kSquares] = {};
  CHECK(!cpu.planner->why_not(context));
  for (const auto& sums : {std::pair{channel, other}, std::pair{other, channel}}) {
    const std::vector<TensorSpec> inputs{x, channel, channel, {}, {}, sums.first, sums.second};
    CHECK_THROWS_AS(norm.infer(inputs), std::invalid_argument);
  }
  const TensorSpec table{{2, 2, 3}, DType::f32};
  CHECK_THROWS_AS(norm.infer(std::vector<TensorSpec>{x, channel, channel, {}, table, channel, channel}),
                  std::invalid_argument);
  CHECK_THROWS_AS(norm.infer(std::vector<TensorSpec>{x, channel, channel, {}}), std::invalid_argument);
  const TensorSpec w{{3, 3, 1, 1}, DType::f32};
  CHECK_NOTHROW(Conv2d({}, false, true).infer(std::vector<TensorSpec>{x, w, {}, channel, channel, {}}));
  CHECK_THROWS_AS(Conv2d({}, false, true).infer(std::vector<TensorSpec>{x, w, {}, channel, other, {}}),
                  std::invalid_argument);
  CHECK_THROWS_AS(Conv2d({}).infer(std::vector<TensorSpec>{x, w, {}, channel, channel, {}}),
                  std::invalid_argument);
}
