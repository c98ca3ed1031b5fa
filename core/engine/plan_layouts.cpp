// SPDX-License-Identifier: Apache-2.0
#include "core/engine/planning.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/graph/names.h"
#include "core/graph/ops/all_gather.h"
#include "core/graph/ops/assign.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/reorder.h"
#include "core/graph/ops/scale_pixels.h"
#include "core/graph/ops/tokens.h"

namespace trainer {
namespace {

/// Chooses an implementation for each node in order. A tensor that is wanted in another layout is reordered
/// once per entry and layout. A cast is placed at its first reader and writes that reader's layout; a cast of
/// a persistent tensor is repeated for a reader with another layout. It does not fix the layout of its
/// source, so f32 weights have the layout of their gradient. Reading pixels is such a cast. A gathered
/// parameter is row-major, and is read in the layout that the parameter would have if it were whole.
class LayoutChooser {
 public:
  LayoutChooser(Plan& plan, const Planner& planner)
      : plan_(plan), planner_(planner), open_(plan.tensors.size(), false), reads_(plan.tensors.size(), 0) {
    for (size_t i = 0; i < plan.tensors.size(); ++i) open_[i] = is_persistent(plan.tensors[i].role);
  }

  /// Of all entries, before any is chosen for.
  void count_reads(const Entry& entry) {
    if (entry.name == entry_name::kPrepare) return;
    for (const Node& node : entry.nodes) {
      for (const TensorId id : node.inputs)
        if (id != kNone) ++reads_[static_cast<size_t>(id)];
    }
  }

  void choose(const Entry& entry) {
    planned_ = {.name = entry.name, .nodes = {}, .outputs = entry.outputs, .peak_by_kind = {}};
    reordered_.clear();
    gathered_.clear();
    travelling_.clear();
    casts_.clear();
    casts_of_.clear();
    for (const Node& node : entry.nodes) {
      if (is_cast(node)) {
        refuse_unless_possible(node, context_of(node));
        casts_[node.outputs[Cast::kY]] = {.node = node};
        casts_of_[node.inputs[Cast::kX]].insert(node.outputs[Cast::kY]);
      } else {
        choose(node);
        note_gathered(node);
      }
    }
    for (NamedTensor& output : planned_.outputs) output.tensor = in_layout(output.tensor, Layout{}, {});
    plan_.entries.push_back(std::move(planned_));
  }

  /// Once all layouts are known.
  void choose_casts() {
    for (PlannedEntry& entry : plan_.entries) {
      for (PlannedNode& planned : entry.nodes) {
        if (!is_cast(planned.node)) continue;
        const Layout &from = layout_of(planned.node.inputs[0]), &to = layout_of(planned.node.outputs[0]);
        const OpContext context = context_of(planned.node);
        planned.choice =
            from == to ? planner_.select(context, {from}) : planner_.select_reorder(context, from, to);
      }
    }
  }

 private:
  struct PendingCast {
    Node node;
    bool is_placed = false;
  };

  static bool is_cast(const Node& node) {
    return dynamic_cast<const Cast*>(node.op.get()) != nullptr ||
           dynamic_cast<const ScalePixels*>(node.op.get()) != nullptr;
  }

  void choose(Node node) {
    phase_ = node.phase;
    if (dynamic_cast<const Assign*>(node.op.get()) != nullptr) place_casts_of(node.inputs[Assign::kState]);
    const OpContext context = context_of(node);
    Choice choice = node.op->is_view() ? view_choice(context) : checked_choice(node, context);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNone) continue;
      node.inputs[i] = in_layout(node.inputs[i], choice.inputs[i], node.origin);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNone) layout(node.outputs[i]) = choice.outputs[i];
    }
    planned_.nodes.push_back({.node = std::move(node), .choice = std::move(choice)});
  }

  /// Between images and tokens the view is of images with their channels last; else all is row-major.
  static Choice view_choice(const OpContext& context) {
    Choice choice{.inputs = {Layout{}}, .outputs = {Layout{}}, .implementation = "view", .algorithm = ""};
    if (dynamic_cast<const ImagesToTokens*>(&context.op) != nullptr)
      choice.inputs[0] = channels_last(context.inputs[0].shape);
    if (dynamic_cast<const TokensToImages*>(&context.op) != nullptr)
      choice.outputs[0] = channels_last(context.outputs[0].shape);
    return choice;
  }

  void refuse_unless_possible(const Node& node, const OpContext& context) const {
    if (const auto reason = planner_.why_not(context)) {
      fail_at(node.origin, fmt::format("{} cannot run on {}: {}", node.op->name(), planner_.name(), *reason));
    }
  }

  Choice checked_choice(const Node& node, const OpContext& context) const {
    refuse_unless_possible(node, context);
    OpenLayouts now;
    for (TensorId id : node.inputs) now.push_back(id == kNone ? Layout{} : layout_so_far(id));
    return planner_.select(context, now);
  }

  /// What travels stays row-major; what has arrived may be read in another layout.
  void note_gathered(const Node& node) {
    if (dynamic_cast<const AllGatherStart*>(node.op.get()) != nullptr) {
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        const TensorId source = source_of(node.inputs[i]);
        if (is_persistent(plan_.tensors[static_cast<size_t>(source)].role))
          travelling_[node.outputs[i]] = source;
      }
    } else if (const auto* done = dynamic_cast<const CollectiveDone*>(node.op.get())) {
      for (size_t i = 0; i < done->count; ++i) {
        if (const auto source = travelling_.find(node.inputs[i]); source != travelling_.end())
          gathered_[node.outputs[i]] = source->second;
      }
    }
  }

  TensorId source_of(TensorId id) const {
    const auto cast = casts_.find(id);
    return cast == casts_.end() ? id : cast->second.node.inputs[Cast::kX];
  }

  /// For a cast not yet placed: its source's layout, since converting there is cheapest.
  std::optional<Layout> layout_so_far(TensorId id) const {
    if (const auto of = gathered_.find(id); of != gathered_.end()) {
      const auto known = of_whole_.find(of->second);
      return known == of_whole_.end() ? std::nullopt : std::optional(known->second);
    }
    const auto cast = casts_.find(id);
    if (cast != casts_.end() && !cast->second.is_placed) id = cast->second.node.inputs[Cast::kX];
    return open_[static_cast<size_t>(id)] ? std::nullopt : std::optional(layout_of(id));
  }

  OpContext context_of(const Node& node) const {
    return {.op = *node.op,
            .inputs = specs_of(plan_.tensors, node.inputs),
            .outputs = specs_of(plan_.tensors, node.outputs),
            .label = {},
            .prepared = std::ranges::any_of(node.inputs, [&](TensorId id) { return is_made_for_one(id); })};
  }

  /// Whether a tensor is made of weights, once, for a single node. Its layout is that node's, still open.
  bool is_made_for_one(TensorId id) const {
    return id != kNone && open_[static_cast<size_t>(id)] && role(id) == Role::derived &&
           reads_[static_cast<size_t>(id)] == 1;
  }

  /// The tensor itself if it has the layout (or is open and now gets it), else its reordered copy.
  TensorId in_layout(TensorId id, const Layout& wanted, const Origin& origin) {
    if (const auto of = gathered_.find(id); of != gathered_.end() && !wanted.is_opaque())
      of_whole_.try_emplace(of->second, wanted);
    if (open_[static_cast<size_t>(id)]) {
      // Files of weights are read into rows.
      layout(id) = wanted.is_opaque() && role(id) != Role::derived ? Layout{} : wanted;
      open_[static_cast<size_t>(id)] = false;
    }
    const auto cast = casts_.find(id);
    if (cast != casts_.end() && !cast->second.is_placed) {
      const TensorId source = cast->second.node.inputs[Cast::kX];
      if (casts_.contains(source)) in_layout(source, layout_so_far(source).value_or(Layout{}), origin);
      cast->second.is_placed = true;
      for (size_t i = 1; i < cast->second.node.inputs.size(); ++i) {
        in_layout(cast->second.node.inputs[i], Layout{}, origin);
      }
      layout(id) = wanted;
      place(Node(cast->second.node), {});
    }
    if (layout_of(id) == wanted) return id;
    const auto key = std::pair{id, to_string(wanted)};
    if (const auto known = reordered_.find(key); known != reordered_.end()) return known->second;
    const bool again = cast != casts_.end() && is_persistent(role(cast->second.node.inputs[Cast::kX]));
    return reordered_[key] = again ? cast_again(cast->second.node, wanted) : reorder(id, wanted, origin);
  }

  /// A state is about to change: its casts are made now.
  void place_casts_of(TensorId state) {
    for (const TensorId id : casts_of_[state]) {
      const PendingCast& cast = casts_.at(id);
      if (!cast.is_placed) in_layout(id, layout_of(state), cast.node.origin);
    }
  }

  TensorId cast_again(Node node, const Layout& wanted) {
    const TensorId copy = add_copy(node.outputs[0], wanted);
    node.outputs[0] = copy;
    place(std::move(node), {});
    return copy;
  }

  /// A tensor like another in a layout of its own.
  TensorId add_copy(TensorId id, const Layout& wanted) {
    const Tensor& from = plan_.tensors[static_cast<size_t>(id)];
    const Role role = from.role == Role::gradient ? Role::gradient : Role::activation;
    plan_.tensors.push_back(
        {.name = "", .spec = from.spec, .role = role, .initial = {}, .quantization = from.quantization});
    plan_.placements.push_back({.layout = wanted});
    open_.push_back(false);
    return static_cast<TensorId>(plan_.tensors.size() - 1);
  }

  TensorId reorder(TensorId id, const Layout& wanted, const Origin& origin) {
    const TensorId copy = add_copy(id, wanted);
    Node node{.op = std::make_shared<Reorder>(), .inputs = {id}, .outputs = {copy}, .origin = origin};
    Choice choice = planner_.select_reorder(context_of(node), layout_of(id), wanted);
    place(std::move(node), std::move(choice));
    return copy;
  }

  /// Appends a node of the same phase as the one that needs it.
  void place(Node node, Choice choice) {
    node.phase = phase_;
    planned_.nodes.push_back({.node = std::move(node), .choice = std::move(choice)});
  }

  Role role(TensorId id) const { return plan_.tensors[static_cast<size_t>(id)].role; }

  Layout& layout(TensorId id) { return plan_.placements[static_cast<size_t>(id)].layout; }
  const Layout& layout_of(TensorId id) const { return plan_.placements[static_cast<size_t>(id)].layout; }

  Plan& plan_;
  const Planner& planner_;
  std::vector<bool> open_;  ///< persistent tensors without a chosen layout
  std::vector<int> reads_;  ///< of each tensor by all entries but `prepare`
  PlannedEntry planned_;
  Phase phase_ = Phase::forward;                     ///< of the node that is being looked at
  std::map<TensorId, PendingCast> casts_;            ///< of this entry, by result
  std::map<TensorId, std::set<TensorId>> casts_of_;  ///< the same, by source
  std::map<std::pair<TensorId, std::string>, TensorId> reordered_;
  std::map<TensorId, TensorId> travelling_;  ///< of this entry: the same while it is gathered
  std::map<TensorId, TensorId> gathered_;    ///< of this entry: the parameter of each gathered tensor
  std::map<TensorId, Layout> of_whole_;      ///< of parameters in parts, that of their first reader
};

}  // namespace

void choose_layouts(const Program& program, const Planner& planner, Plan& plan) {
  plan.tensors = program.tensors;
  plan.placements.assign(program.tensors.size(), {});
  LayoutChooser chooser(plan, planner);
  for (const Entry& entry : program.entries) chooser.count_reads(entry);
  for (const Entry& entry : program.entries) chooser.choose(entry);
  chooser.choose_casts();
}

}  // namespace trainer
