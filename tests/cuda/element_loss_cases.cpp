// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/graph/ops/confusion_cells.h"
#include "core/graph/ops/element_loss.h"
#include "tests/cuda/cases.h"

namespace trainer {
namespace {

/// Targets from 0 to 1, both ends among them.
TensorId shares(Sketch& sketch, const Shape& shape) {
  const TensorId targets = sketch.input("targets", shape, Values::positive);
  std::vector<float>& values = sketch.values["targets"];
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = i % 3 == 2 ? values[i] - 0.5f : static_cast<float>(i % 3);
  return targets;
}

void draft_element_loss(Sketch& sketch, const Shape& shape, const element_loss::Rule& rule, bool weighs) {
  const TensorId x = sketch.parameter("x", shape), targets = shares(sketch, shape),
                 weights = sketch.input("weights", {shape[0]}, Values::positive);
  if (shape[0] > 1) sketch.values["weights"][1] = 0;
  const TensorId positive = weighs ? sketch.input("pos_weight", {shape[1]}, Values::positive) : kNone;
  if (shape.size() == 2) sketch.output("cells", sketch.build().emit<LabelSetCells>({x, targets, weights}));
  sketch.output("loss", sketch.build().emit<ElementLoss>({x, targets, weights, positive}, rule));
}

}  // namespace

void add_element_loss_cases(std::vector<KernelCase>& cases) {
  const element_loss::Rule entropy = element_loss::BinaryCrossEntropy{},
                           square = element_loss::SquaredError{}, absolute = element_loss::AbsoluteError{},
                           huber = element_loss::Huber{0.75f};
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 31}, Shape{33, 5}, Shape{2, 2049}, Shape{3, 5, 7},
                             Shape{2, 3, 31, 33}, Shape{2, 1, 5, 3}, Shape{3, 17, 2, 1}}) {
    for (const auto& rule : {entropy, square, absolute, huber}) {
      const bool weighs = shape.size() == 2 && std::holds_alternative<element_loss::BinaryCrossEntropy>(rule);
      for (const bool weighed : {false, true}) {
        if (weighed && !weighs) continue;
        const std::string name = ElementLoss(rule).name().data();
        cases.push_back({fmt::format("{} {}{}", name, to_string(shape), weighed ? " weighed" : ""),
                         [=](Sketch& sketch) { draft_element_loss(sketch, shape, rule, weighed); }});
      }
    }
  }
}

}  // namespace trainer
