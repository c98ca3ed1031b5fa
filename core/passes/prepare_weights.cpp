// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <typeindex>
#include <utility>
#include <vector>

#include "core/engine/planner.h"
#include "core/graph/builder.h"
#include "core/graph/operation.h"
#include "core/graph/ops/assign.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

bool are_equal(const Operation& a, const Operation& b) {
  return typeid(a) == typeid(b) &&
         std::ranges::equal(attributes_of(a), attributes_of(b), [](const Attribute& x, const Attribute& y) {
           return x.name == y.name && x.value == y.value;
         });
}

/// Builds the entry `prepare` from nodes of all others.
class Preparation {
 public:
  explicit Preparation(Program& program) : program_(program), build_(program, once_) { find_fixed(); }

  void take_from(Entry& entry) {
    std::erase_if(entry.nodes, [&](const Node& node) { return takes(node) && !node.op->is_view(); });
    for (Node& node : entry.nodes) {
      for (TensorId& id : node.inputs) id = kept(id);
    }
    for (NamedTensor& output : entry.outputs) output.tensor = kept(output.tensor);
  }

  /// Weights that a node reads as they are, if it alone does and the device prefers a form of its own.
  void copy_for_own_forms(const Planner& planner) {
    const std::vector<int> reads = reads_of_all();
    for (Entry& entry : program_.entries) {
      for (Node& node : entry.nodes) {
        const std::vector<bool> opaque = opaque_inputs(planner, node);
        for (size_t i = 0; i < opaque.size(); ++i) {
          const TensorId id = node.inputs[i];
          if (opaque[i] && program_.tensor(id).role == Role::parameter && reads[static_cast<size_t>(id)] == 1)
            node.inputs[i] = keep(program_.tensor(id).name, id);
        }
      }
    }
  }

  void finish() { program_.entries.push_back(std::move(once_)); }

 private:
  struct Maker {
    Node node;
    size_t output;
  };
  struct Copy {
    std::shared_ptr<const Operation> op;
    std::vector<TensorId> outputs;
  };

  void find_fixed() {
    is_fixed_.assign(program_.tensors.size(), false);
    for (size_t i = 0; i < is_fixed_.size(); ++i) {
      const Role role = program_.tensors[i].role;
      is_fixed_[i] = role == Role::parameter || role == Role::state || role == Role::constant;
    }
    for (const Entry& entry : program_.entries) {
      for (const Node& node : entry.nodes) {
        if (dynamic_cast<const Assign*>(node.op.get()) != nullptr)
          is_fixed_[static_cast<size_t>(node.inputs[Assign::kState])] = false;
      }
    }
  }

  /// Whether all that the node reads is fixed. Its outputs are then, too.
  bool takes(const Node& node) {
    bool reads = false;
    for (const TensorId id : node.inputs) {
      if (id == kNone) continue;
      if (!is_fixed_[static_cast<size_t>(id)]) return false;
      reads = true;
    }
    if (!reads || node.outputs.empty()) return false;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] == kNone) continue;
      is_fixed_[static_cast<size_t>(node.outputs[o])] = true;
      makers_[node.outputs[o]] = {node, o};
    }
    return true;
  }

  /// What another entry reads in place of a tensor: one that persists, if `prepare` makes it.
  TensorId kept(TensorId id) {
    const auto maker = makers_.find(id);
    if (maker == makers_.end() || maker->second.node.op->is_view()) return id;
    const TensorId value = prepared(id);
    const auto [known, fresh] = kept_.try_emplace(value, kNone);
    if (fresh) known->second = keep(source_of(maker->second.node), value);
    return known->second;
  }

  /// A tensor that persists, with this value of `prepare`. It is named after its source; from the second on
  /// also by number.
  TensorId keep(const std::string& source, TensorId value) {
    const size_t number = ++names_[source];
    const std::string name = source + state_suffix::kPrepared + (number == 1 ? "" : std::to_string(number));
    const TensorId kept = program_.persistent(name, program_.spec(value), Role::derived, {});
    build_.set_origin({{}, name});
    build_.assign(kept, value);
    return kept;
  }

  std::vector<int> reads_of_all() const {
    std::vector<int> reads(program_.tensors.size(), 0);
    for (const Entry& entry : program_.entries) {
      const std::vector<int> uses = count_uses(program_, entry);
      for (size_t i = 0; i < reads.size(); ++i) reads[i] += uses[i];
    }
    return reads;
  }

  /// Of a node with weights that are prepared for it alone: those for which the device has its own form.
  std::vector<bool> opaque_inputs(const Planner& planner, const Node& node) const {
    const bool has_weights = std::ranges::any_of(
        node.inputs, [&](TensorId id) { return id != kNone && program_.tensor(id).role == Role::parameter; });
    if (!has_weights) return {};
    OpContext context{.op = *node.op,
                      .inputs = specs_of(program_.tensors, node.inputs),
                      .outputs = specs_of(program_.tensors, node.outputs),
                      .label = {},
                      .prepared = true};
    if (planner.why_not(context)) return {};
    std::vector<bool> found;
    for (const Layout& layout : planner.select(context, OpenLayouts(node.inputs.size())).inputs)
      found.push_back(layout.is_opaque());
    return found;
  }

  /// The same tensor in the entry `prepare`.
  TensorId prepared(TensorId id) {
    const auto maker = makers_.find(id);
    if (maker == makers_.end()) return id;
    const Node& node = maker->second.node;
    std::vector<TensorId> inputs = node.inputs;
    for (TensorId& input : inputs) input = prepared(input);
    return copy_of(node, inputs).outputs[maker->second.output];
  }

  const Copy& copy_of(const Node& node, const std::vector<TensorId>& inputs) {
    const Operation& op = *node.op;
    std::vector<Copy>& copies = copies_[{typeid(op), inputs}];
    for (const Copy& copy : copies) {
      if (are_equal(*copy.op, op)) return copy;
    }
    build_.set_origin(node.origin);
    copies.push_back({node.op, build_.emit_all(node.op, inputs)});
    return copies.back();
  }

  /// The name of the first tensor with one that a node computes from.
  std::string source_of(const Node& node) const {
    const TensorId first = *std::ranges::find_if(node.inputs, [](TensorId id) { return id != kNone; });
    const auto maker = makers_.find(first);
    return maker == makers_.end() ? program_.tensor(first).name : source_of(maker->second.node);
  }

  Program& program_;
  Entry once_{entry_name::kPrepare};
  Builder build_;
  std::vector<bool> is_fixed_;
  std::map<TensorId, Maker> makers_;  ///< of fixed tensors, by those of the other entries
  std::map<std::pair<std::type_index, std::vector<TensorId>>, std::vector<Copy>> copies_;
  std::map<TensorId, TensorId> kept_;  ///< by tensors of `prepare`
  std::map<std::string, size_t> names_;
};

}  // namespace

Pass prepare_weights(const Planner* planner) {
  auto run = [planner](Program& program) {
    Preparation preparation(program);
    for (Entry& entry : program.entries) preparation.take_from(entry);
    if (planner != nullptr) preparation.copy_for_own_forms(*planner);
    preparation.finish();
  };
  return {.name = "prepare_weights",
          .help = "compute what depends on weights alone once, before all batches of a prediction",
          .optional = true,
          .run = run,
          .after = {"given_averages"}};
}

std::optional<Pass> prepare_weights_pass(const PassSettings& settings) {
  if (settings.trains) return std::nullopt;
  const bool has_forms = settings.planner != nullptr && !settings.planner->is_async();
  return prepare_weights(has_forms ? settings.planner : nullptr);
}

}  // namespace trainer
