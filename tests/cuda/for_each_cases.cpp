// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/graph/ops/binary.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/for_each.h"
#include "core/graph/ops/lerp.h"
#include "core/graph/ops/zeros.h"
#include "tests/cuda/cases.h"

namespace trainer {
namespace {

/// Below, at and beyond the size of one block's part, and a convolution's weights.
std::vector<Shape> few_shapes() {
  return {{1}, {31}, {8192}, {9001}, {8, 3, 3, 3}};
}

/// More than one kernel's arguments can hold.
std::vector<Shape> many_shapes() {
  std::vector<Shape> shapes(321, Shape{3});
  shapes.back() = {9};
  return shapes;
}

std::shared_ptr<ForEach> casts_to(DType dtype, size_t count) {
  return std::make_shared<ForEach>(
      std::vector<std::shared_ptr<const Operation>>(count, std::make_shared<Cast>(dtype)), 1, 1);
}

/// Back to f32, which harness and reference compare.
void draft_casts(Sketch& sketch, DType low, const std::vector<Shape>& shapes) {
  std::vector<TensorId> x;
  for (size_t i = 0; i < shapes.size(); ++i) x.push_back(sketch.input(fmt::format("x{}", i), shapes[i]));
  const auto narrow = sketch.build().emit_all(casts_to(low, shapes.size()), x);
  const auto wide = sketch.build().emit_all(casts_to(DType::f32, shapes.size()), narrow);
  for (size_t i = 0; i < shapes.size(); ++i) sketch.output(fmt::format("y{}", i), wide[i]);
  sketch.loss(sketch.parameter("p", {3}));
}

/// Each by numbers of its own; without skip if `skip` is negative.
void draft_lerps(Sketch& sketch, const std::vector<Shape>& shapes, int skip) {
  std::vector<TensorId> inputs;
  std::vector<std::shared_ptr<const Operation>> ops;
  TensorId skips = kNone;
  if (skip >= 0) {
    skips = sketch.input("skip", {1});
    sketch.values["skip"][0] = static_cast<float>(skip);
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    inputs.push_back(sketch.input(fmt::format("old{}", i), shapes[i]));
    inputs.push_back(sketch.input(fmt::format("fresh{}", i), shapes[i]));
    inputs.push_back(skips);
    const auto number = static_cast<double>(i % 7);
    ops.push_back(std::make_shared<Lerp>(0.1 + 0.1 * number, 1 + number / 36));
  }
  const auto each = std::make_shared<ForEach>(std::move(ops), Lerp::kInputs, 1);
  const auto y = sketch.build().emit_all(each, inputs);
  for (size_t i = 0; i < y.size(); ++i) sketch.output(fmt::format("y{}", i), y[i]);
  sketch.loss(sketch.parameter("p", {3}));
}

void draft_sums(Sketch& sketch, const std::vector<Shape>& shapes) {
  std::vector<TensorId> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    inputs.push_back(sketch.input(fmt::format("sum{}", i), shapes[i]));
    inputs.push_back(sketch.input(fmt::format("more{}", i), shapes[i]));
  }
  const std::vector<std::shared_ptr<const Operation>> ops(shapes.size(),
                                                          std::make_shared<Binary>(Binary::Kind::add));
  const auto y = sketch.build().emit_all(std::make_shared<ForEach>(ops, Binary::kInputs, 1), inputs);
  for (size_t i = 0; i < y.size(); ++i) sketch.output(fmt::format("y{}", i), y[i]);
  sketch.loss(sketch.parameter("p", {3}));
}

}  // namespace

void add_for_each_cases(std::vector<KernelCase>& cases) {
  const auto add_zeros = [&](const std::vector<Shape>& shapes) {
    cases.push_back({fmt::format("zeros, {} tensors", shapes.size()),
                     [=](Sketch& sketch) {
                       const auto zeros = sketch.build().emit_all(std::make_shared<Zeros>(shapes), {});
                       for (size_t i = 0; i < shapes.size(); ++i)
                         sketch.output(fmt::format("y{}", i), zeros[i]);
                       sketch.loss(sketch.parameter("p", {3}));
                     },
                     false});
  };
  add_zeros(few_shapes());
  add_zeros(many_shapes());
  const std::vector<Shape> few = few_shapes(), many = many_shapes();
  for (const DType low : {DType::f16, DType::bf16}) {
    for (const auto& shapes : {few, many}) {
      cases.push_back({fmt::format("casts of {} tensors to {}", shapes.size(), to_string(low)),
                       [=](Sketch& sketch) { draft_casts(sketch, low, shapes); }, false,
                       narrow_tolerances(low)});
    }
  }
  for (const int skip : {-1, 0, 1}) {
    cases.push_back({fmt::format("lerps, skip {}", skip),
                     [=](Sketch& sketch) { draft_lerps(sketch, few, skip); }, false});
  }
  cases.push_back({"sums", [=](Sketch& sketch) { draft_sums(sketch, few); }, false});
  cases.push_back({"many sums", [=](Sketch& sketch) { draft_sums(sketch, many); }, false});
  cases.push_back({"many lerps", [=](Sketch& sketch) { draft_lerps(sketch, many, -1); }, false});
}

}  // namespace trainer
