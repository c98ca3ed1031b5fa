// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/prune_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

namespace trainer {
namespace {

/// Smaller numbers are printed with all their digits.
constexpr double kAllDigits = 10000;

/// A number before and after.
struct Change {
  double before = 0, after = 0;
  Change& operator+=(const Change& other) {
    before += other.before;
    after += other.after;
    return *this;
  }
};

struct PruneRow {
  std::string name;
  Change channels, multiply_adds, parameters;
  std::string note;
};

std::string short_number(double number) {
  constexpr std::array<const char*, 5> kUnits = {"", " k", " M", " G", " T"};
  size_t unit = 0;
  if (number < kAllDigits) return fmt::format("{:.0f}", number);
  while (number >= 1000 && unit + 1 < kUnits.size()) number /= 1000, ++unit;
  return fmt::format("{:.2f}{}", number, kUnits[unit]);
}

std::string change_text(const Change& change) {
  return fmt::format("{} -> {}", short_number(change.before), short_number(change.after));
}

std::string without_suffix(const std::string& parameter) {
  constexpr std::string_view kWeight = ".weight";
  return parameter.ends_with(kWeight) ? parameter.substr(0, parameter.size() - kWeight.size()) : parameter;
}

Change multiply_adds_of(const Program& before, const Node& old, const Program& after, const Node& now) {
  const auto half_flops = [](const Program& program, const Node& node) {
    const auto [inputs, outputs] = node_specs(program, node);
    return node.op->flops(inputs, outputs) / 2;
  };
  return {half_flops(before, old), half_flops(after, now)};
}

Change parameters_of(const SmallerNetwork& smaller, const Node& node) {
  Change change;
  for (const TensorId id : node.inputs) {
    if (id == kNone || smaller.before.tensor(id).role != Role::parameter) continue;
    change.before += static_cast<double>(numel(smaller.before.spec(id).shape));
    change.after += static_cast<double>(numel(smaller.shape_after(id)));
  }
  return change;
}

/// Names of the parameters that make a group's channels.
std::vector<std::string> makers(const SmallerNetwork& smaller, const ChannelGroup& group) {
  std::vector<std::string> names;
  for (const ChannelAxis& axis : group.axes) {
    if (axis.use == ChannelUse::makes)
      names.push_back(without_suffix(smaller.before.tensor(axis.tensor).name));
  }
  return names;
}

/// Why channels that a parameter makes stay, or with which others they go.
std::string note_of(const SmallerNetwork& smaller, const ChannelAxis& axis) {
  std::vector<std::string> notes;
  for (const ChannelGroup& group : smaller.channels.groups) {
    if (!group.axes.contains(axis)) continue;
    const std::vector<std::string> all = makers(smaller, group);
    const bool is_first = all.front() == without_suffix(smaller.before.tensor(axis.tensor).name);
    std::string note = group.stays.empty() ? "" : "stays: " + group.stays;
    if (group.stays.empty() && !is_first) note = "with " + all.front();
    if (!note.empty() && std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
  }
  return fmt::format("{}", fmt::join(notes, "; "));
}

std::vector<PruneRow> prune_rows(const SmallerNetwork& smaller, const Program& after) {
  std::map<TensorId, ChannelAxis> made;
  for (const ChannelGroup& group : smaller.channels.groups) {
    for (const ChannelAxis& axis : group.axes) {
      if (axis.use == ChannelUse::makes) made.emplace(axis.tensor, axis);
    }
  }
  const std::vector<Node>& old = SmallerNetwork::entry_of(smaller.before).nodes;
  const std::vector<Node>& now = SmallerNetwork::entry_of(after).nodes;
  std::vector<PruneRow> rows;
  for (size_t n = 0; n < old.size(); ++n) {
    for (const TensorId id : old[n].inputs) {
      const auto found = made.find(id);
      if (found == made.end()) continue;
      const ChannelAxis& axis = found->second;
      const Change multiply_adds = multiply_adds_of(smaller.before, old[n], after, now[n]);
      if (multiply_adds.before == 0) continue;  // an embedding that shares its table
      const auto size = [&](const Shape& shape) { return static_cast<double>(shape[axis.dimension]); };
      rows.push_back({.name = without_suffix(smaller.before.tensor(id).name),
                      .channels = {size(smaller.before.spec(id).shape), size(smaller.shape_after(id))},
                      .multiply_adds = multiply_adds,
                      .parameters = parameters_of(smaller, old[n]),
                      .note = note_of(smaller, axis)});
    }
  }
  return rows;
}

}  // namespace

std::string prune_table(const SmallerNetwork& smaller, const Program& after) {
  const std::vector<PruneRow> rows = prune_rows(smaller, after);
  size_t width = 5;
  for (const PruneRow& row : rows) width = std::max(width, row.name.size());
  std::string text =
      fmt::format("{:<{}} {:>14} {:>20} {:>20}\n", "layer", width, "channels", "multiply-adds", "parameters");
  Change multiply_adds, parameters;
  for (const PruneRow& row : rows) {
    text += fmt::format("{:<{}} {:>14} {:>20} {:>20}{}{}\n", row.name, width, change_text(row.channels),
                        change_text(row.multiply_adds), change_text(row.parameters),
                        row.note.empty() ? "" : "  ", row.note);
    multiply_adds += row.multiply_adds;
  }
  for (size_t i = 0; i < smaller.before.tensors.size(); ++i) {
    if (smaller.before.tensors[i].role != Role::parameter) continue;
    const auto id = static_cast<TensorId>(i);
    parameters += {static_cast<double>(numel(smaller.before.spec(id).shape)),
                   static_cast<double>(numel(smaller.shape_after(id)))};
  }
  const auto percent = [](const Change& change) { return 100 * change.after / std::max(1.0, change.before); };
  return text +
         fmt::format(
             "{:<{}} {:>14} {:>20} {:>20}  {:.1f} % of the multiply-adds, {:.1f} % of the parameters\n",
             "total", width, "", change_text(multiply_adds), change_text(parameters), percent(multiply_adds),
             percent(parameters));
}

}  // namespace trainer
