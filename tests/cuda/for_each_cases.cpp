// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/graph/ops/blend.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/for_each.h"
#include "tests/cuda/cases.h"

namespace trainer {
namespace {

/// Below, at and beyond what one block takes, and a convolution's weights.
std::vector<Shape> few_shapes() {
  return {{1}, {31}, {8192}, {9001}, {8, 3, 3, 3}};
}

/// More than one kernel's arguments hold.
std::vector<Shape> many_shapes() {
  std::vector<Shape> shapes(321, Shape{3});
  shapes.back() = {9};
  return shapes;
}

/// Back to f32, which harness and reference compare.
void draft_casts(Sketch& sketch, DType low, const std::vector<Shape>& shapes) {
  std::vector<TensorId> x;
  for (size_t i = 0; i < shapes.size(); ++i) x.push_back(sketch.input(fmt::format("x{}", i), shapes[i]));
  const auto narrow =
      sketch.build().emit_all(std::make_shared<ForEach>(std::make_shared<Cast>(low), 1, 1), x);
  const auto wide =
      sketch.build().emit_all(std::make_shared<ForEach>(std::make_shared<Cast>(DType::f32), 1, 1), narrow);
  for (size_t i = 0; i < shapes.size(); ++i) sketch.output(fmt::format("y{}", i), wide[i]);
  sketch.loss(sketch.parameter("p", {3}));
}

/// Without skip where `skip` is negative.
void draft_blends(Sketch& sketch, const std::vector<Shape>& shapes, int skip) {
  std::vector<TensorId> inputs;
  TensorId skips = kNone;
  if (skip >= 0) {
    skips = sketch.input("skip", {1});
    sketch.values["skip"][0] = static_cast<float>(skip);
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    inputs.push_back(sketch.input(fmt::format("old{}", i), shapes[i]));
    inputs.push_back(sketch.input(fmt::format("fresh{}", i), shapes[i]));
    if (skip >= 0) inputs.push_back(skips);
  }
  const auto each = std::make_shared<ForEach>(std::make_shared<Blend>(0.1, 37.0 / 36), skip < 0 ? 2 : 3, 1);
  const auto y = sketch.build().emit_all(each, inputs);
  for (size_t i = 0; i < y.size(); ++i) sketch.output(fmt::format("y{}", i), y[i]);
  sketch.loss(sketch.parameter("p", {3}));
}

}  // namespace

void add_for_each_cases(std::vector<KernelCase>& cases) {
  const std::vector<Shape> few = few_shapes(), many = many_shapes();
  for (const DType low : {DType::f16, DType::bf16}) {
    for (const auto& shapes : {few, many}) {
      cases.push_back({fmt::format("casts of {} tensors to {}", shapes.size(), to_string(low)),
                       [=](Sketch& sketch) { draft_casts(sketch, low, shapes); }, false,
                       narrow_tolerances(low)});
    }
  }
  for (const int skip : {-1, 0, 1}) {
    cases.push_back({fmt::format("blends, skip {}", skip),
                     [=](Sketch& sketch) { draft_blends(sketch, few, skip); }, false});
  }
  cases.push_back({"many blends", [=](Sketch& sketch) { draft_blends(sketch, many, -1); }, false});
}

}  // namespace trainer
