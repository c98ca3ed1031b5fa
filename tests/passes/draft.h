// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/engine/planner.h"
#include "core/graph/ops/cross_entropy.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/reshape.h"
#include "core/graph/ops/unary.h"
#include "core/step/stages.h"

namespace trainer {

using Calls = std::vector<std::string>;

/// A train_step under construction.
struct Draft {
  Program program{.tensors = {}, .entries = {Entry(entry_name::kTrainStep)}};
  Builder build{program, program.entries[0]};

  TensorId input(const std::string& name, const Shape& shape, DType dtype = DType::f32) {
    return program.input(name, {shape, dtype});
  }
  TensorId parameter(const std::string& name, const Shape& shape) {
    return program.persistent(name, {shape, DType::f32}, Role::parameter, {});
  }
  TensorId relu(TensorId x) { return build.emit<Unary>({x}, elementwise::Function(elementwise::Relu{})); }
  TensorId flatten(TensorId x) {
    const Shape shape = build.shape(x);
    return build.emit<Reshape>({x}, Shape{shape[0], numel(shape) / shape[0]});
  }
  void loss(TensorId logits) {
    const int64_t batch = build.shape(logits)[0];
    const TensorId labels = input("labels", {batch}, DType::i32), weights = input("weights", {batch});
    output(output_name::kLoss, build.emit<CrossEntropy>({logits, labels, weights}, 0.0));
  }
  void output(const std::string& name, TensorId x) { program.entries[0].outputs.push_back({name, x}); }

  Draft& run(const std::vector<Pass>& passes) {
    run_passes(program, passes);
    return *this;
  }
  bool is_changed_by(const std::vector<Pass>& passes) {
    const std::string before = to_text(program);
    return to_text(run(passes).program) != before;
  }

  /// The nodes of an entry, or those with this operation, without numbers and shapes: `bf16 linear(x, cast,
  /// -) {relu}`. An input is the name of its tensor or the operation that makes it, `.1` being its second
  /// output.
  Calls calls(std::string_view op = {}, const char* of = entry_name::kTrainStep) {
    const Entry& entry = program.entry(of);
    Calls found;
    for (const Node& node : entry.nodes) {
      if (!op.empty() && node.op->name() != op) continue;
      std::string inputs, type;
      for (const TensorId id : node.inputs) inputs += (inputs.empty() ? "" : ", ") + source(entry, id);
      const auto y = std::ranges::find_if(node.outputs, [](TensorId id) { return id != kNone; });
      if (y != node.outputs.end() && program.spec(*y).dtype != DType::f32)
        type = std::string(to_string(program.spec(*y).dtype)) + " ";
      const std::string attributes = attributes_text(*node.op);
      found.push_back(fmt::format("{}{}({}){}", type, node.op->name(), inputs,
                                  attributes.empty() ? "" : " {" + attributes + "}"));
    }
    return found;
  }

 private:
  std::string source(const Entry& entry, TensorId id) const {
    if (id == kNone) return "-";
    if (!program.tensor(id).name.empty()) return program.tensor(id).name;
    for (const Node& node : entry.nodes) {
      const auto place = std::ranges::find(node.outputs, id) - node.outputs.begin();
      if (place == std::ssize(node.outputs)) continue;
      return std::string(node.op->name()) + (place == 0 ? "" : fmt::format(".{}", place));
    }
    return "?";
  }
};

/// logits = relu(x wT + b), and their cross entropy.
inline Draft classifier() {
  Draft draft;
  const TensorId x = draft.input("x", {2, 3}), w = draft.parameter("w", {4, 3}),
                 b = draft.parameter("b", {4});
  draft.parameter("unused", {7});
  draft.loss(draft.relu(draft.build.emit<Linear>({x, w, b})));
  return draft;
}

/// Takes no fusion.
struct RefusingPlanner : Planner {
  std::string_view name() const override { return "refusing"; }
  std::optional<std::string> why_not(const OpContext&) const override { return "not here"; }
  Choice select(const OpContext&, const OpenLayouts&) const override { return {}; }
  Choice select_reorder(const OpContext&, const Layout&, const Layout&) const override { return {}; }
  int64_t memory_bytes() const override { return 0; }
};

}  // namespace trainer
