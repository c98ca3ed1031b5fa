// SPDX-License-Identifier: Apache-2.0
#include "core/engine/planning.h"

#include <fmt/format.h>

#include "core/graph/ops/assign.h"
#include "core/graph/ops/reorder.h"

namespace trainer {
namespace {

/// Chooses an implementation for each node in order; a tensor wanted in another layout than it has is
/// reordered once per entry and layout.
class LayoutChooser {
 public:
  LayoutChooser(Plan& plan, const Backend& backend)
      : plan_(plan), backend_(backend), open_(plan.tensors.size(), false) {
    for (size_t i = 0; i < plan.tensors.size(); ++i) open_[i] = is_persistent(plan.tensors[i].role);
  }

  void choose(const Entry& entry) {
    planned_ = {.name = entry.name, .nodes = {}, .outputs = entry.outputs, .peak_by_kind = {}};
    reordered_.clear();
    for (const Node& node : entry.nodes) choose(node);
    for (NamedTensor& output : planned_.outputs) output.tensor = in_layout(output.tensor, Layout{}, {});
    plan_.entries.push_back(std::move(planned_));
  }

 private:
  void choose(Node node) {
    const OpContext context = context_of(node);
    Choice choice = node.op->is_view() ? view_choice() : checked_choice(node, context);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNone) continue;
      node.inputs[i] = in_layout(node.inputs[i], choice.inputs[i], node.origin);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNone) layout(node.outputs[i]) = choice.outputs[i];
    }
    planned_.nodes.push_back({.node = std::move(node), .choice = std::move(choice)});
  }

  static Choice view_choice() {
    return {.inputs = {Layout{}}, .outputs = {Layout{}}, .implementation = "view", .algorithm = ""};
  }

  Choice checked_choice(const Node& node, const OpContext& context) const {
    if (const auto reason = backend_.why_not(context)) {
      fail_at(node.origin, fmt::format("{} cannot run on {}: {}", node.op->name(), backend_.name(), *reason));
    }
    OpenLayouts now;
    for (TensorId id : node.inputs) {
      const bool is_open = id != kNone && open_[static_cast<size_t>(id)];
      now.push_back(id == kNone ? Layout{} : is_open ? std::nullopt : std::optional(layout_of(id)));
    }
    return backend_.select(context, now);
  }

  OpContext context_of(const Node& node) const {
    OpContext context{.op = *node.op, .inputs = {}, .outputs = {}};
    auto spec = [&](TensorId id) {
      return id == kNone ? TensorSpec{} : plan_.tensors[static_cast<size_t>(id)].spec;
    };
    for (TensorId id : node.inputs) context.inputs.push_back(spec(id));
    for (TensorId id : node.outputs) context.outputs.push_back(spec(id));
    return context;
  }

  /// The tensor itself where it has the layout (or is open and now gets it), else its reordered copy.
  TensorId in_layout(TensorId id, const Layout& wanted, const Origin& origin) {
    if (open_[static_cast<size_t>(id)]) {
      layout(id) = wanted;
      open_[static_cast<size_t>(id)] = false;
    }
    if (layout_of(id) == wanted) return id;
    const auto key = std::pair{id, to_string(wanted)};
    if (const auto known = reordered_.find(key); known != reordered_.end()) return known->second;
    return reordered_[key] = reorder(id, wanted, origin);
  }

  TensorId reorder(TensorId id, const Layout& wanted, const Origin& origin) {
    const Tensor& from = plan_.tensors[static_cast<size_t>(id)];
    const Role role = from.role == Role::gradient ? Role::gradient : Role::activation;
    plan_.tensors.push_back({.name = "", .spec = from.spec, .role = role, .initial = {}});
    plan_.placements.push_back({.layout = wanted});
    open_.push_back(false);
    const auto copy = static_cast<TensorId>(plan_.tensors.size() - 1);
    Node node{.op = std::make_shared<Reorder>(), .inputs = {id}, .outputs = {copy}, .origin = origin};
    if (!planned_.nodes.empty()) node.phase = planned_.nodes.back().node.phase;
    Choice choice = backend_.select_reorder(context_of(node), layout_of(id), wanted);
    planned_.nodes.push_back({.node = std::move(node), .choice = std::move(choice)});
    return copy;
  }

  Layout& layout(TensorId id) { return plan_.placements[static_cast<size_t>(id)].layout; }
  const Layout& layout_of(TensorId id) const { return plan_.placements[static_cast<size_t>(id)].layout; }

  Plan& plan_;
  const Backend& backend_;
  std::vector<bool> open_;  ///< persistent tensors whose layout nobody has chosen yet
  PlannedEntry planned_;
  std::map<std::pair<TensorId, std::string>, TensorId> reordered_;
};

}  // namespace

void choose_layouts(const Program& program, const Backend& backend, Plan& plan) {
  plan.tensors = program.tensors;
  plan.placements.assign(program.tensors.size(), {});
  LayoutChooser chooser(plan, backend);
  for (const Entry& entry : program.entries) chooser.choose(entry);
}

}  // namespace trainer
