// SPDX-License-Identifier: Apache-2.0
#include "core/engine/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "core/base/units.h"
#include "core/engine/planning.h"
#include "core/engine/predicted_time.h"

namespace trainer {

Plan make_plan(const Program& program, const Planner& planner, int64_t rank) {
  verify(program);
  Plan plan;
  plan.rank = rank;
  plan.is_async = planner.is_async();
  choose_layouts(program, planner, plan);
  place_persistent(planner, plan, rank, program.stage);
  place_storages(planner, plan, rank);
  return plan;
}

const PlannedEntry& Plan::entry(std::string_view name) const {
  for (const PlannedEntry& entry : entries) {
    if (entry.name == name) return entry;
  }
  throw std::logic_error(fmt::format("the plan has no entry point {}", name));
}

bool Plan::has_entry(std::string_view name) const {
  return std::ranges::any_of(entries, [&](const PlannedEntry& entry) { return entry.name == name; });
}

TensorId Plan::find(std::string_view name) const {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].name.empty() && tensors[i].name == name) return static_cast<TensorId>(i);
  }
  return kNone;
}

StoredType Plan::stored_type(TensorId id) const {
  const auto index = static_cast<size_t>(id);
  return {.dtype = tensors[index].spec.dtype, .bytes = placements[index].element_bytes};
}

std::string label_of(const Node& node) {
  return fmt::format("{}{}{}", node.op->name(), node.origin.path.empty() ? "" : " ", node.origin.path);
}

bool has_bounds(const Plan& plan) {
  return std::any_of(plan.entries.begin(), plan.entries.end(), [](const PlannedEntry& entry) {
    return std::any_of(entry.nodes.begin(), entry.nodes.end(),
                       [](const PlannedNode& planned) { return planned.choice.workspace_is_bound; });
  });
}

namespace {

std::string layouts_text(const std::vector<TensorId>& ids, const std::vector<Layout>& layouts) {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ids[i] == kNone ? "-" : to_string(layouts[i]));
  }
  return text;
}

std::string cost_text(const Cost& cost) {
  return fmt::format(" [{} kernel{}, {}, {}, {:.1f} us, limit {}]", cost.kernels,
                     cost.kernels == 1 ? "" : "s", human_bytes(static_cast<int64_t>(cost.bytes)),
                     human_flops(cost.flops), 1e6 * cost.seconds(), cost.limit());
}

}  // namespace

std::string to_text(const Plan& plan, const std::optional<DeviceRates>& rates) {
  std::string text;
  for (const PlannedEntry& entry : plan.entries) {
    text += fmt::format("entry {}: {} scratch, {} at least\n", entry.name, human_bytes(entry.scratch_bytes),
                        human_bytes(entry.live_bytes));
    for (const PlannedNode& planned : entry.nodes) {
      const Node& node = planned.node;
      const auto rank = only_rank(plan.tensors, node);
      const std::string how = rank           ? fmt::format("on rank {}", *rank)
                              : planned.runs ? planned.choice.implementation
                                             : "in place";
      text += fmt::format("  {:<24} {:<28} ({}) -> ({})", node.op->name(), how,
                          layouts_text(node.inputs, planned.choice.inputs),
                          layouts_text(node.outputs, planned.choice.outputs));
      if (!planned.choice.algorithm.empty()) text += " " + planned.choice.algorithm;
      if (planned.choice.workspace_bytes > 0) {
        text += fmt::format(" workspace {}{}", planned.choice.workspace_is_bound ? "at most " : "",
                            human_bytes(planned.choice.workspace_bytes));
      }
      if (rates && planned.runs) text += cost_text(cost_of(plan, planned, *rates));
      if (!node.origin.path.empty()) text += "  # " + node.origin.path;
      text += "\n";
    }
  }
  return text;
}

}  // namespace trainer
