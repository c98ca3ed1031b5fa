// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/engine/planner.h"
#include "core/graph/ops/cross_entropy.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/reshape.h"
#include "core/graph/ops/unary.h"
#include "core/step/stages.h"

namespace trainer {

/// A train_step in the making. Tensors are numbered in the order of their making, as the text shows them.
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

  /// The entries' text after passes, without the list of tensors.
  std::string after(const std::vector<Pass>& passes) {
    run_passes(program, passes);
    const std::string text = to_text(program);
    return text.substr(text.find("\nentry"));
  }
};

/// logits = x wT + b, and their cross entropy.
inline Draft classifier() {
  Draft draft;
  const TensorId x = draft.input("x", {2, 3}), labels = draft.input("labels", {2}, DType::i32);
  const TensorId weights = draft.input("weights", {2});
  const TensorId w = draft.parameter("w", {4, 3}), b = draft.parameter("b", {4});
  draft.parameter("unused", {7});
  const TensorId logits = draft.relu(draft.build.emit<Linear>({x, w, b}));
  draft.output(output_name::kLoss, draft.build.emit<CrossEntropy>({logits, labels, weights}, 0.0));
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
