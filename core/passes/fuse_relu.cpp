// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/unary.h"
#include "core/passes/entry_editor.h"
#include "core/passes/table.h"

namespace trainer {
namespace {

/// The same operation with a relu that is clamped at `ceiling`, or nullptr if that is impossible.
std::shared_ptr<const Operation> with_relu(const Operation& op, double ceiling) {
  if (const auto* norm = dynamic_cast<const BatchNorm*>(&op); norm != nullptr && !norm->relu) {
    return std::make_shared<BatchNorm>(norm->eps, true, ceiling);
  }
  if (const auto* sum = dynamic_cast<const Binary*>(&op);
      sum != nullptr && sum->kind == Binary::Kind::add && !sum->relu) {
    return std::make_shared<Binary>(Binary::Kind::add, true, ceiling);
  }
  if (std::isfinite(ceiling)) return nullptr;
  if (const auto* conv = dynamic_cast<const Conv2d*>(&op); conv != nullptr && !conv->relu) {
    return std::make_shared<Conv2d>(conv->geometry, true);
  }
  if (const auto* linear = dynamic_cast<const Linear*>(&op);
      linear != nullptr && linear->function == LinearFunction::none) {
    return std::make_shared<Linear>(LinearFunction::relu, linear->transposed);
  }
  return nullptr;
}

/// A batch normalisation with a relu also outputs the relu's mask.
std::vector<TensorId> outputs_with_relu(Program& program, const Node& node, TensorId y) {
  std::vector<TensorId> outputs = node.outputs;
  outputs[0] = y;
  if (dynamic_cast<const BatchNorm*>(node.op.get()) == nullptr) return outputs;
  const Shape shape = program.spec(y).shape;
  outputs.push_back(
      program.add({.name = "", .spec = {shape, DType::u8}, .role = Role::activation, .initial = {}}));
  return outputs;
}

/// The ceiling of a relu: infinity, or 6. Nothing for other operations.
std::optional<double> ceiling_of_relu(const Operation& op) {
  const auto* unary = dynamic_cast<const Unary*>(&op);
  if (unary == nullptr) return std::nullopt;
  if (std::holds_alternative<elementwise::Relu>(unary->function))
    return std::numeric_limits<double>::infinity();
  if (std::holds_alternative<elementwise::Relu6>(unary->function)) return 6.0;
  return std::nullopt;
}

void fuse_relu_into(Program& program, Entry& entry) {
  EntryEditor nodes(entry);
  for (size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = nodes.node(n);
    if (nodes.is_removed(n) || node.outputs.empty() || node.outputs[0] == kNone) continue;
    const int reader = nodes.only_reader(node.outputs[0]);
    if (reader == EntryEditor::kNobody) continue;
    const Node relu = nodes.node(reader);
    const std::optional<double> ceiling = ceiling_of_relu(*relu.op);
    const auto fused = ceiling ? with_relu(*node.op, *ceiling) : nullptr;
    if (fused == nullptr) continue;
    nodes.remove(static_cast<size_t>(reader));
    nodes.set_op(n, fused);
    nodes.set_outputs(n, outputs_with_relu(program, node, relu.outputs[0]));
  }
  nodes.finish();
}

}  // namespace

Pass fuse_relu() {
  auto run = [](Program& program) {
    for (Entry& entry : program.entries) fuse_relu_into(program, entry);
  };
  return {
      .name = "fuse_relu",
      .help = "compute a relu together with the convolution, normalisation, linear layer or sum before it",
      .optional = true,
      .run = run};
}

std::optional<Pass> fuse_relu_pass(const PassSettings&) {
  return fuse_relu();
}

}  // namespace trainer
