// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/conv2d.h"

#include <fmt/format.h>

#include "tests/catch.h"

#include "core/engine/plan.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/unary.h"
#include "core/step/stages.h"
#include "cpu/backend.h"
#include "tests/ops/harness.h"
#include "tests/processor.h"

using namespace trainer;

namespace {

struct Case {
  Shape x;
  int64_t out_channels;
  Conv2dGeometry geometry;
};

const std::vector<Case> kCases = {
    {{1, 1, 5, 5}, 1, {.kernel = {3, 3}}},
    {{2, 3, 7, 5}, 4, {.kernel = {1, 1}}},
    {{3, 1, 9, 9}, 6, {.kernel = {5, 5}, .padding = {2, 2}}},
    {{2, 17, 6, 6}, 33, {.kernel = {3, 3}, .padding = {1, 1}}},
    {{1, 31, 5, 7}, 17, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
    {{2, 32, 6, 6}, 32, {.kernel = {3, 3}, .padding = {1, 1}}},
    {{3, 16, 8, 8}, 64, {.kernel = {1, 1}, .stride = {2, 2}}},
    {{2, 5, 9, 8}, 7, {.kernel = {3, 2}, .stride = {1, 3}, .padding = {2, 0}}},
    {{2, 4, 9, 9}, 3, {.kernel = {3, 3}, .padding = {2, 2}, .dilation = {2, 2}}},
    {{1, 3, 11, 7}, 5, {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 2}, .dilation = {3, 2}}},
    {{2, 6, 5, 5}, 9, {.kernel = {3, 3}, .padding = {1, 1}, .groups = 3}},
    {{2, 33, 6, 5}, 33, {.kernel = {3, 3}, .padding = {1, 1}, .groups = 33}},
    {{2, 32, 7, 7}, 32, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .groups = 32}},
    {{1, 31, 9, 7}, 31, {.kernel = {5, 5}, .stride = {2, 2}, .padding = {2, 2}, .groups = 31}},
    {{2, 48, 5, 6}, 48, {.kernel = {3, 3}, .padding = {2, 2}, .dilation = {2, 2}, .groups = 48}},
    {{1, 34, 5, 5}, 34, {.kernel = {3, 3}, .padding = {1, 1}, .dilation = {2, 1}, .groups = 2}},
    {{1, 8, 4, 4}, 3, {.kernel = {4, 4}}},
    {{2, 3, 19, 17}, 8, {.kernel = {7, 7}, .stride = {2, 2}, .padding = {3, 3}}},
};

std::string text(const Case& c) {
  return fmt::format("{} -> {} {}", to_string(c.x), c.out_channels, attributes_text(Conv2d(c.geometry)));
}

/// x as a parameter, so that its gradient is computed too.
void draft(Sketch& sketch, const Case& c, bool bias, bool relu) {
  const TensorId x = sketch.parameter("x", c.x);
  const Shape shape{c.out_channels, c.x[1] / c.geometry.groups, c.geometry.kernel[0], c.geometry.kernel[1]};
  const TensorId w = sketch.parameter("w", shape);
  const TensorId b = bias ? sketch.parameter("b", {c.out_channels}) : kNone;
  TensorId y = sketch.build().emit<Conv2d>({x, w, b}, c.geometry);
  if (relu) y = sketch.build().emit<Unary>({y}, elementwise::Function(elementwise::Relu{}));
  sketch.output("y", y);
  sketch.loss(y);
}

}  // namespace

TEST_CASE("convolutions of every kind have the right values and gradients") {
  for (const Case& c : kCases) {
    for (const bool bias : {false, true}) {
      check_program(text(c), [&](Sketch& sketch) { draft(sketch, c, bias, false); });
    }
  }
}

TEST_CASE("a convolution with its relu in it equals one followed by a relu") {
  for (const Case& c : kCases) {
    INFO(text(c));
    for (uint64_t seed : {1, 2}) check_cpu([&](Sketch& sketch) { draft(sketch, c, true, true); }, seed);
  }
}

/// Of inputs, so that nothing is differentiated; in place of a residual that nobody else reads, or not.
void draft_residual(Sketch& sketch, const Case& c, bool bias, bool relu, bool read_again) {
  const Shape shape{c.out_channels, c.x[1] / c.geometry.groups, c.geometry.kernel[0], c.geometry.kernel[1]};
  const TensorId x = sketch.input("x", c.x), w = sketch.input("w", shape),
                 b = bias ? sketch.input("b", {c.out_channels}) : kNone;
  Builder& build = sketch.build();
  const auto relu_of = [&](TensorId of) {
    return build.emit<Unary>({of}, elementwise::Function(elementwise::Relu{}));
  };
  const Size2d size = c.geometry.output({c.x[2], c.x[3]});
  const TensorId residual = relu_of(sketch.input("r", {c.x[0], c.out_channels, size[0], size[1]}));
  TensorId y = build.emit<Binary>({residual, build.emit<Conv2d>({x, w, b}, c.geometry)}, Binary::Kind::add);
  if (relu) y = relu_of(y);
  sketch.output("y", y);
  if (read_again) y = build.emit<Binary>({y, residual}, Binary::Kind::mul);
  sketch.loss(build.emit<Binary>({y, sketch.parameter("scale", build.shape(y))}, Binary::Kind::mul));
}

TEST_CASE("a convolution with a residual in it equals one followed by a sum") {
  for (const Case& c : kCases) {
    INFO(text(c));
    for (const bool bias : {false, true}) {
      for (const bool read_again : {false, true}) {
        const auto drafted = [&](Sketch& sketch) {
          draft_residual(sketch, c, bias, bias != read_again, read_again);
        };
        check_cpu(drafted, 1);
        check_bf16(drafted, 2);
      }
    }
  }
}

TEST_CASE("a chain of convolutions passes gradients through blocked layouts") {
  for (int64_t channels : {int64_t{1}, int64_t{33}}) {
    check_program("chain", [&](Sketch& sketch) {
      const Conv2dGeometry geometry{.kernel = {3, 3}, .padding = {1, 1}};
      const TensorId x = sketch.input("x", {3, 3, 5, 5});
      const TensorId w1 = sketch.parameter("w1", {channels, 3, 3, 3}),
                     b1 = sketch.parameter("b1", {channels});
      const TensorId w2 = sketch.parameter("w2", {31, channels, 3, 3}), b2 = sketch.parameter("b2", {31});
      const TensorId middle = sketch.build().emit<Conv2d>({x, w1, b1}, geometry);
      sketch.loss(sketch.build().emit<Conv2d>({middle, w2, b2}, geometry));
    });
  }
}

TEST_CASE("with a tuning, an algorithm that was found fastest is used and an unknown one is timed once") {
  const Conv2d op(Conv2dGeometry{.kernel = {3, 3}, .padding = {1, 1}});
  const OpContext context{.op = op,
                          .inputs = {{{2, 32, 12, 12}, DType::f32}, {{32, 32, 3, 3}, DType::f32}, {}},
                          .outputs = {{{2, 32, 12, 12}, DType::f32}}};
  const OpenLayouts open(3);
  Tuning tuning;
  const std::string found = make_cpu_backend(1, &tuning).planner->select(context, open).algorithm;
  REQUIRE(tuning.fastest.size() == 1);
  CHECK(tuning.fastest.begin()->second == found);
  std::vector<std::string> names{"direct", "winograd, own", "direct, channels last"};
  const auto onednn = make_cpu_backend(1, nullptr, false, nullptr, false);
  if (onednn.planner->select(context, open).algorithm == "winograd") names.emplace_back("winograd");
  for (const std::string& name : names) {
    tuning.fastest.begin()->second = name;
    CHECK(make_cpu_backend(1, &tuning).planner->select(context, open).algorithm == name);
  }
  tuning.fastest.begin()->second = "winograd, own";
  CHECK(make_cpu_backend(1, &tuning, false, nullptr, false).planner->select(context, open).algorithm !=
        "winograd, own");
  CHECK(tuning.fastest.size() == 1);
}

TEST_CASE("convolutions are right with their channels last, where a tuning says so") {
  const Case c{{2, 33, 7, 6}, 17, {.kernel = {3, 3}, .padding = {1, 1}}};
  auto drafted = [&](Sketch& sketch) { draft(sketch, c, true, false); };
  Tuning tuning;
  check_backend(make_cpu_backend(1, &tuning), drafted, 1);
  REQUIRE(tuning.fastest.size() == 3);
  for (auto& [use, algorithm] : tuning.fastest) algorithm = "direct, channels last";
  const auto cpu = make_cpu_backend(1, &tuning);
  check_backend(cpu, drafted, 1);
  const Conv2d op(c.geometry);
  const OpContext context{.op = op,
                          .inputs = {{c.x, DType::f32}, {{17, 33, 3, 3}, DType::f32}, {{17}, DType::f32}},
                          .outputs = {{{2, 17, 7, 6}, DType::f32}}};
  const Choice choice = cpu.planner->select(context, OpenLayouts(3));
  CHECK(to_string(choice.inputs[0]) == "acdb");
  CHECK(to_string(choice.outputs[0]) == "acdb");
}

TEST_CASE("3x3 depthwise convolutions have kernels of their own in all directions") {
  if (!kOnX86) return;
  const auto cpu = make_cpu_backend(2);
  for (int64_t channels : {16, 24, 32, 96, 144, 960}) {
    for (int64_t stride : {1, 2}) {
      Sketch sketch(1);
      const Conv2dGeometry geometry{
          .kernel = {3, 3}, .stride = {stride, stride}, .padding = {1, 1}, .groups = channels};
      draft(sketch, {{1, channels, 14, 14}, channels, geometry}, false, false);
      run_passes(sketch.program, {autodiff()});
      const Plan plan = make_plan(sketch.program, *cpu.planner);
      int found = 0;
      for (const PlannedNode& planned : plan.entries[0].nodes) {
        if (!planned.node.op->name().starts_with("conv2d")) continue;
        INFO(planned.node.op->name() << " " << attributes_text(*planned.node.op) << ": "
                                     << planned.choice.implementation);
        CHECK(planned.choice.implementation.find("dw") != std::string::npos);
        ++found;
      }
      CHECK(found == 3);
    }
  }
}

TEST_CASE("transposed convolutions have the right values and gradients") {
  struct Transposed {
    Shape x;
    int64_t out_channels;
    Conv2dGeometry geometry;
    Size2d output;
  };
  const std::vector<Transposed> cases = {
      {{1, 1, 3, 4}, 1, {.kernel = {3, 3}}, {5, 6}},
      {{2, 17, 4, 3}, 5, {.kernel = {2, 2}, .stride = {2, 2}}, {8, 6}},
      {{1, 16, 5, 5}, 32, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}, {10, 10}},
      {{2, 33, 4, 5}, 31, {.kernel = {3, 3}, .padding = {1, 1}}, {4, 5}},
      {{2, 3, 4, 3}, 4, {.kernel = {3, 2}, .stride = {3, 1}, .padding = {1, 0}, .dilation = {1, 2}}, {12, 5}},
      {{1, 6, 3, 3}, 4, {.kernel = {4, 4}, .stride = {2, 2}, .padding = {1, 1}, .groups = 2}, {6, 6}},
      {{2, 16, 3, 3}, 16, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .groups = 16}, {6, 5}},
  };
  for (const Transposed& c : cases) {
    check_program(
        fmt::format("{} {}", to_string(c.x), attributes_text(Conv2d(c.geometry))), [&](Sketch& sketch) {
          const TensorId x = sketch.parameter("x", c.x);
          const TensorId w = sketch.parameter(
              "w", {c.x[1], c.out_channels / c.geometry.groups, c.geometry.kernel[0], c.geometry.kernel[1]});
          const Shape out{c.x[0], c.out_channels, c.output[0], c.output[1]};
          const TensorId y = sketch.build().emit<Conv2dBackwardData>({x, w}, c.geometry, out);
          sketch.output("y", y);
          sketch.loss(y);
        });
  }
}

TEST_CASE("convolutions in bf16 take the algorithm that they take in f32, where it is the program's own") {
  const Case c{{1, 257, 8, 8}, 272, {.kernel = {3, 3}, .padding = {1, 1}}};
  check_bf16([&](Sketch& sketch) { draft(sketch, c, false, false); }, 1);
  check_bf16([&](Sketch& sketch) { draft(sketch, c, true, true); }, 2);

  const auto cpu = make_cpu_backend(1, nullptr, true);
  if (cpu.planner->set_precision(Precision::amp_bf16)) return;  // this processor cannot even emulate it
  const Conv2d forward(c.geometry);
  const Conv2dBackwardData backward(c.geometry, c.x);
  auto algorithm = [&](const Operation& op, DType dtype, int64_t pixels) {
    const Shape x{2, 257, pixels, pixels}, w{272, 257, 3, 3}, y{2, 272, pixels, pixels};
    const bool is_forward = &op == &forward;
    OpContext context{.op = op,
                      .inputs = {{is_forward ? x : y, dtype}, {w, dtype}},
                      .outputs = {{is_forward ? y : x, dtype}}};
    if (is_forward) context.inputs.push_back({});
    return cpu.planner->select(context, OpenLayouts(context.inputs.size(), Layout{})).algorithm;
  };
  for (const Operation* op :
       {static_cast<const Operation*>(&forward), static_cast<const Operation*>(&backward)}) {
    INFO(op->name());
    CHECK(algorithm(*op, DType::f32, 8) == "winograd, own");
    CHECK(algorithm(*op, DType::bf16, 8) == "winograd, own");
    CHECK(algorithm(*op, DType::bf16, 2) == "direct");  // three quarters of a tile would be wasted
  }
}

TEST_CASE("groups of whole blocks of channels take the program's own algorithm; others do not") {
  const Conv2dGeometry geometry{.kernel = {3, 3}, .padding = {1, 1}, .groups = 2};
  const Case whole{{2, 64, 9, 8}, 32, geometry}, parts{{2, 36, 9, 8}, 36, geometry};
  for (const Case& c : {whole, parts}) {
    for (const bool relu : {false, true})
      check_program(text(c), [&](Sketch& sketch) { draft(sketch, c, true, relu); });
    check_bf16([&](Sketch& sketch) { draft(sketch, c, true, true); }, 1);
  }
  const auto cpu = make_cpu_backend(1, nullptr, true);
  auto algorithm = [&](const Case& c) {
    const Conv2d op(c.geometry);
    const Shape w{c.out_channels, c.x[1] / 2, 3, 3}, y{c.x[0], c.out_channels, c.x[2], c.x[3]};
    const OpContext context{.op = op, .inputs = {{c.x}, {w}, {}}, .outputs = {{y}}};
    return cpu.planner->select(context, OpenLayouts(3, Layout{})).algorithm;
  };
  CHECK(algorithm(whole) == "winograd, own");
  CHECK(algorithm(parts) == "direct");
}
