// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/binary.h"
#include "core/graph/ops/gated.h"
#include "core/graph/ops/unary.h"
#include "core/passes/entry_editor.h"
#include "core/passes/table.h"

namespace trainer {
namespace {

/// The operand of a product that is a function of another tensor and is read nowhere else, or kInputs.
size_t gate_of(const EntryEditor& nodes, const Node& product) {
  for (const size_t operand : {Binary::kA, Binary::kB}) {
    const TensorId opened = product.inputs[operand];
    const int maker = nodes.maker_of(opened);
    if (maker == EntryEditor::kNobody || nodes.uses(opened) > 1) continue;
    if (dynamic_cast<const Unary*>(nodes.node(maker).op.get()) != nullptr) return operand;
  }
  return Binary::kInputs;
}

void fuse_gates(Entry& entry) {
  EntryEditor nodes(entry);
  for (size_t n = 0; n < nodes.size(); ++n) {
    const Node& product = nodes.node(n);
    const auto* binary = dynamic_cast<const Binary*>(product.op.get());
    if (nodes.is_removed(n) || binary == nullptr || binary->kind != Binary::Kind::mul) continue;
    const size_t gate = gate_of(nodes, product);
    if (gate == Binary::kInputs) continue;
    const TensorId x = product.inputs[gate == Binary::kA ? Binary::kB : Binary::kA];
    const int maker = nodes.maker_of(product.inputs[gate]);
    const Node function = nodes.node(maker);
    nodes.remove(static_cast<size_t>(maker));
    nodes.set_op(n, std::make_shared<Gated>(static_cast<const Unary&>(*function.op).function));
    nodes.set_inputs(n, {function.inputs[Unary::kX], x});
  }
  nodes.finish();
}

}  // namespace

Pass fuse_gate() {
  auto run = [](Program& program) {
    for (Entry& entry : program.entries) fuse_gates(entry);
  };
  return {.name = "fuse_gate",
          .help = "compute a function of one tensor and its product with another together, as in SwiGLU",
          .optional = true,
          .run = run};
}

std::optional<Pass> fuse_gate_pass(const PassSettings&) {
  return fuse_gate();
}

}  // namespace trainer
