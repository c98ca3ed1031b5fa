// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/linear.h"

#include <algorithm>
#include "tests/catch.h"

#include "core/engine/plan.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/embedding.h"
#include "core/graph/ops/pool2d.h"
#include "core/graph/ops/reshape.h"
#include "core/graph/ops/unary.h"
#include "core/step/stages.h"
#include "cpu/backend.h"
#include "tests/ops/harness.h"
#include "tests/reference/session.h"

using namespace trainer;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("linear layers have the right values and gradients") {
  struct Sizes {
    int64_t samples, features, outputs;
  };
  for (const Sizes& e : {Sizes{1, 1, 2}, {1, 31, 33}, {3, 33, 31}, {3, 17, 1}, {32, 64, 10}, {5, 100, 48}}) {
    for (const bool bias : {false, true}) {
      for (const bool relu : {false, true}) {
        const Draft draft = [&](Sketch& sketch) {
          const TensorId x = sketch.parameter("x", {e.samples, e.features});
          const TensorId w = sketch.parameter("w", {e.outputs, e.features});
          const TensorId b = bias ? sketch.parameter("b", {e.outputs}) : kNone;
          TensorId y = sketch.build().emit<Linear>({x, w, b});
          if (relu) y = sketch.build().emit<Unary>({y}, elementwise::Function(elementwise::Relu{}));
          sketch.output("y", y);
          sketch.loss(y);
        };
        INFO(e.samples << "x" << e.features << " -> " << e.outputs);
        if (relu) {
          for (uint64_t seed : {1, 2}) check_cpu(draft, seed);
        } else {
          check_program("linear", draft);
        }
      }
    }
  }
}

TEST_CASE("a linear layer with an addend in it equals one followed by a sum") {
  struct Sizes {
    Shape x;
    int64_t outputs;
  };
  for (const Sizes& e :
       {Sizes{{1, 31}, 33}, {{3, 33}, 31}, {{32, 64}, 10}, {{2, 17, 31}, 33}, {{40, 1, 5}, 7}}) {
    for (const bool relu : {false, true}) {
      for (const bool read_again : {false, true}) {
        const auto drafted = [&](Sketch& sketch) {
          Builder& build = sketch.build();
          const auto relu_of = [&](TensorId of) {
            return build.emit<Unary>({of}, elementwise::Function(elementwise::Relu{}));
          };
          const TensorId x = sketch.input("x", e.x), w = sketch.input("w", {e.outputs, e.x.back()}),
                         b = relu ? sketch.input("b", {e.outputs}) : kNone;
          const TensorId product = build.emit<Linear>({x, w, b});
          const Shape shape = build.shape(product);
          // Made after the product, which therefore cannot take it, or before.
          const TensorId addend = relu_of(sketch.input("r", shape));
          const TensorId second = build.emit<Linear>({x, w, kNone});
          TensorId y = build.emit<Binary>({product, addend}, Binary::Kind::add);
          y = build.emit<Binary>({y, second}, Binary::Kind::add);
          if (relu) y = relu_of(y);
          sketch.output("y", y);
          if (read_again) y = build.emit<Binary>({y, addend}, Binary::Kind::mul);
          sketch.loss(build.emit<Binary>({y, sketch.parameter("scale", shape)}, Binary::Kind::mul));
        };
        INFO(to_string(e.x) << " -> " << e.outputs);
        check_cpu(drafted, 1);
        check_bf16(drafted, 2);
      }
    }
  }
}

TEST_CASE("linear layers map the last of three dimensions") {
  struct Sizes {
    Shape x;
    int64_t outputs;
  };
  for (const Sizes& e :
       {Sizes{{1, 1, 1}, 2}, {{1, 31, 33}, 5}, {{31, 1, 33}, 31}, {{3, 5, 17}, 1}, {{2, 33, 31}, 33}}) {
    for (const bool bias : {false, true}) {
      for (const bool relu : {false, true}) {
        const Draft draft = [&](Sketch& sketch) {
          const TensorId x = sketch.parameter("x", e.x);
          const TensorId w = sketch.parameter("w", {e.outputs, e.x.back()});
          const TensorId b = bias ? sketch.parameter("b", {e.outputs}) : kNone;
          TensorId y = sketch.build().emit<Linear>({x, w, b});
          if (relu) y = sketch.build().emit<Unary>({y}, elementwise::Function(elementwise::Relu{}));
          sketch.output("y", y);
          sketch.loss(y);
        };
        INFO(to_string(e.x) << " -> " << e.outputs);
        if (relu) {
          for (uint64_t seed : {1, 2}) check_cpu(draft, seed);
        } else {
          check_program("linear", draft);
          check_bf16(draft, 2);
        }
      }
    }
  }
}

TEST_CASE("a linear layer with transposed weights has the same values, and weights that lie alike") {
  struct Sizes {
    Shape x;
    int64_t outputs;
  };
  for (const Sizes& e : {Sizes{{1, 1}, 2}, {{1, 31}, 33}, {{33, 17}, 1}, {{5, 31, 33}, 48}, {{64, 1}, 9}}) {
    for (const bool bias : {false, true}) {
      INFO(to_string(e.x) << " -> " << e.outputs);
      check_program("transposed", [&](Sketch& sketch) {
        const TensorId x = sketch.parameter("x", e.x), w = sketch.parameter("w", {e.x.back(), e.outputs});
        const TensorId b = bias ? sketch.parameter("b", {e.outputs}) : kNone;
        const TensorId y = sketch.build().emit<Linear>({x, w, b}, LinearFunction::none, true);
        sketch.output("y", y);
        sketch.loss(y);
      });
    }
  }
  const auto plan_of = [](bool transposed) {
    Sketch sketch(1);
    const TensorId x = sketch.parameter("x", {128, 96});
    const TensorId w = sketch.parameter("w", transposed ? Shape{96, 80} : Shape{80, 96});
    const TensorId b = sketch.parameter("b", {80});
    TensorId y = sketch.build().emit<Linear>({x, w, b}, LinearFunction::none, transposed);
    sketch.loss(sketch.build().emit<Unary>({y}, elementwise::Function(elementwise::Relu{})));
    run_passes(sketch.program, {fuse_relu(), autodiff()});
    const auto cpu = make_cpu_backend(2);
    std::vector<std::string> ways;
    const Plan plan = make_plan(sketch.program, *cpu.planner);
    for (const PlannedNode& planned : plan.entries[0].nodes) {
      ways.push_back(std::string(planned.node.op->name()) + " " + planned.choice.implementation);
    }
    return ways;
  };
  CHECK(plan_of(false) == plan_of(true));
}

TEST_CASE("an embedding and a linear layer share a table, whose gradient is the sum of both") {
  for (const int64_t tokens : {1, 33}) {
    check_program("tied", [&](Sketch& sketch) {
      const TensorId ids = sketch.integers("ids", {3, tokens}, 31);
      const TensorId table = sketch.parameter("table", {31, 17});
      const TensorId x = sketch.build().emit<Embedding>({ids, table});
      const TensorId bent = sketch.build().emit<Unary>({x}, elementwise::Function(elementwise::Tanh{}));
      sketch.loss(sketch.build().emit<Linear>({bent, table, kNone}));
    });
  }
}

TEST_CASE("products of many rows in bf16 are right, whichever kernels the processor has") {
  for (const int64_t outputs : {64, 65, 100, 128, 129}) {
    for (const int64_t features : {33, 1000}) {
      INFO(features << " features, " << outputs << " outputs");
      const Draft draft = [&](Sketch& sketch) {
        const TensorId x = sketch.parameter("x", {128, features});
        const TensorId w = sketch.parameter("w", {outputs, features}), b = sketch.parameter("b", {outputs});
        TensorId y = sketch.build().emit<Linear>({x, w, b});
        y = sketch.build().emit<Unary>({y}, elementwise::Function(elementwise::Relu{}));
        sketch.output("y", y);
        sketch.loss(y);
      };
      for (const uint64_t seed : {1, 2}) check_bf16(draft, seed);
    }
  }
}

TEST_CASE("a linear layer of three dimensions has the bits of its rows as a matrix, and copies nothing") {
  const auto draft = [](Sketch& sketch, bool flat) {
    Builder& build = sketch.build();
    TensorId x = sketch.parameter("x", {3, 31, 33});
    const TensorId w = sketch.parameter("w", {17, 33}), b = sketch.parameter("b", {17});
    if (flat) x = build.emit<Reshape>({x}, Shape{93, 33});
    TensorId y = build.emit<Linear>({x, w, b});
    if (flat) y = build.emit<Reshape>({y}, Shape{3, 31, 17});
    sketch.output("y", y);
    sketch.loss(y);
    run_passes(sketch.program, {autodiff()});
    Entry& entry = sketch.program.entries[0];
    for (const ParameterGradient& pair : std::vector(entry.gradients))
      entry.outputs.push_back({sketch.program.tensor(pair.parameter).name, pair.gradient});
  };
  const auto reorders = [](Session& session) {
    const std::vector<PlannedNode>& nodes = session.executable().plan().entries[0].nodes;
    return std::ranges::count_if(nodes, [](const PlannedNode& n) { return n.node.op->name() == "reorder"; });
  };
  const auto cpu = make_cpu_backend(2);
  for (const uint64_t seed : {1, 2}) {
    Sketch rows(seed), matrix(seed);
    draft(rows, false);
    draft(matrix, true);
    Session of_rows(rows.program, cpu), of_matrix(matrix.program, cpu);
    of_rows.set(rows.values);
    of_matrix.set(matrix.values);
    of_rows.run(entry_name::kTrainStep);
    of_matrix.run(entry_name::kTrainStep);
    for (const char* name : {"y", "x", "w", "b"}) {
      INFO(name << ", seed " << seed);
      CHECK(of_rows.output(entry_name::kTrainStep, name) == of_matrix.output(entry_name::kTrainStep, name));
    }
    CHECK(reorders(of_rows) == reorders(of_matrix));
  }
}

TEST_CASE("a linear layer refuses images, and weights for other features") {
  Sketch sketch(1);
  const TensorId w = sketch.parameter("w", {4, 5});
  CHECK_THROWS_WITH(
      sketch.build().emit<Linear>({sketch.input("images", {2, 1, 5, 5}), w, kNone}),
      ContainsSubstring("expected features (N, K) or (N, T, K), got shape 2x1x5x5; put `flatten` before it"));
  CHECK_THROWS_WITH(sketch.build().emit<Linear>({sketch.input("x", {2, 5, 3}), w, kNone}),
                    ContainsSubstring("weights of shape 4x5 met 3 features"));
}

TEST_CASE("a linear layer and its gradient take gelu_tanh where the device can, which a CPU does not") {
  const TensorSpec x{{3, 7}, DType::f32}, w{{11, 7}, DType::f32}, y{{3, 11}, DType::f32}, none{};
  const Linear forward(LinearFunction::gelu_tanh);
  const LinearBackwardData data(x.shape, false, true);
  CHECK(forward.infer(std::vector{x, w, none, none}) == std::vector{y, y});
  CHECK(data.infer(std::vector{y, w, x, none}) == std::vector{x});
  CHECK_THROWS_WITH(data.infer(std::vector{y, w, y, none}),
                    ContainsSubstring("must have the shape of the features"));
  const Backend cpu = make_cpu_backend(1);
  CHECK(cpu.planner->why_not({.op = forward, .inputs = {x, w, none, none}, .outputs = {y, y}}).has_value());
  CHECK(cpu.planner->why_not({.op = data, .inputs = {y, w, x, none}, .outputs = {x}}).has_value());
  CHECK(!cpu.planner->why_not({.op = Linear(), .inputs = {x, w, none, none}, .outputs = {y}}));
}

TEST_CASE("a linear layer of three dimensions counts a product for each row") {
  const TensorSpec x{{3, 5, 7}, DType::f32}, w{{11, 7}, DType::f32}, y{{3, 5, 11}, DType::f32};
  const double expected = 2.0 * 3 * 5 * 7 * 11;
  CHECK(Linear().infer(std::vector{x, w, TensorSpec{}, TensorSpec{}}) == std::vector{y});
  CHECK(Linear().flops(std::vector{x, w, TensorSpec{}}, std::vector{y}) == expected);
  CHECK(LinearBackwardData(x.shape).flops(std::vector{y, w}, std::vector{x}) == expected);
  CHECK(LinearBackwardWeights(false).flops(std::vector{x, y}, std::vector{w}) == expected);
}

TEST_CASE("a linear layer takes a convolution's or a pool's output as it lies") {
  for (int64_t channels : {int64_t{1}, int64_t{17}, int64_t{32}, int64_t{33}}) {
    for (const bool pools : {false, true}) {
      check_program("flattened images", [&](Sketch& sketch) {
        Builder& build = sketch.build();
        const TensorId x = sketch.input("x", {3, 2, 6, 5});
        const TensorId w = sketch.parameter("w", {channels, 2, 3, 3}), b = sketch.parameter("b", {channels});
        TensorId y = build.emit<Conv2d>({x, w, b}, Conv2dGeometry{.kernel = {3, 3}, .padding = {1, 1}});
        if (pools) y = build.emit<AvgPool2d>({y}, Conv2dGeometry{.kernel = {2, 2}, .stride = {2, 2}});
        const int64_t features = numel(build.shape(y)) / 3;
        const TensorId flat = build.emit<Reshape>({y}, Shape{3, features});
        const TensorId v = sketch.parameter("v", {13, features}), c = sketch.parameter("c", {13});
        sketch.loss(build.emit<Linear>({flat, v, c}));
      });
    }
  }
}
