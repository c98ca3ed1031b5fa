// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/graph/operation.h"
#include "core/graph/ops/cast.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// Inputs of element-wise operations in a network: parameters and inputs in bf16.
void cast_leaves(Program& program) {
  Entry& entry = program.entry(kEntry);
  std::vector<Node> nodes;
  nodes.swap(entry.nodes);
  Builder build(program, entry);
  std::map<TensorId, TensorId> casts;
  for (Node& node : nodes) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const TensorId id = node.inputs[i];
      if (id == kNone || program.tensor(id).name.empty() || program.spec(id).dtype != DType::f32) continue;
      if (node.op->input_type(i) != InputType::widest) continue;
      const auto [cast, fresh] = casts.try_emplace(id, kNone);
      if (fresh) cast->second = build.emit<Cast>({id}, DType::bf16);
      node.inputs[i] = cast->second;
    }
    entry.nodes.push_back(std::move(node));
  }
}

}  // namespace

std::string gradient_name(const std::string& parameter) {
  return fmt::format("gradient of {}", parameter);
}

Program differentiated(Program program, const std::vector<Pass>& before, const Planner* planner) {
  std::vector<Pass> passes = before;
  const auto fold = std::ranges::find(passes, "fold_batch_norm", &Pass::name);
  if (planner != nullptr && fold != passes.end()) passes.insert(fold + 1, fuse_addend(planner));
  passes.push_back(autodiff());
  if (!before.empty()) passes.push_back(fuse_gradient_sum());
  if (planner != nullptr) passes.push_back(gram_batch_norm(*planner, 0));
  if (planner != nullptr) passes.push_back(fuse_moments(*planner));
  run_passes(program, passes);
  Entry& entry = program.entry(kEntry);
  for (const ParameterGradient& pair : entry.gradients) {
    entry.outputs.push_back({gradient_name(program.tensor(pair.parameter).name), pair.gradient});
  }
  run_passes(program, {dead_code()});
  // Device kernels for many tensors are optional: with some fusions they are left out.
  if (planner != nullptr && before.size() > 1) run_passes(program, {fuse_horizontally(*planner)});
  return program;
}

std::vector<std::vector<Pass>> variants_of_fusion() {
  return {{}, {fuse_relu()}, {fold_batch_norm(), fuse_residual(), fuse_relu(), fuse_gate()}};
}

Program stored_as(Program program, DType dtype) {
  for (Tensor& tensor : program.tensors) {
    const bool given = tensor.role == Role::input || tensor.role == Role::parameter;
    if (given && tensor.spec.dtype == DType::f32 && tensor.spec.shape.size() > 1) tensor.spec.dtype = dtype;
  }
  for (const Node& node : program.entry(kEntry).nodes) {
    const std::vector<TensorSpec> outputs = node.op->infer(specs_of(program.tensors, node.inputs));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNone) program.tensors[static_cast<size_t>(node.outputs[i])].spec = outputs[i];
    }
  }
  return program;
}

std::vector<float> through(const Planner& planner, const std::vector<float>& values, DType dtype) {
  const StoredType type{.dtype = dtype, .bytes = planner.element_bytes(dtype)};
  return from_stored<float>(to_stored(std::span<const float>(values), type), type);
}

std::vector<Pass> with_bf16(std::vector<Pass> passes) {
  const Pass mixed = mixed_precision(DType::bf16);
  auto run = [mixed](Program& program) {
    cast_leaves(program);
    mixed.run(program);
  };
  passes.push_back({.name = mixed.name, .help = mixed.help, .optional = false, .run = run});
  return passes;
}

}  // namespace trainer
