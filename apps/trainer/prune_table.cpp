// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/prune_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
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
  std::optional<Change> channels = {};
  Change multiply_adds = {}, parameters = {};
  std::string note = {};
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

/// The channels of the output that a node makes with a weight. A grouped transposed convolution's weight has
/// only those of one group.
Change channels_of(const SmallerNetwork& smaller, const Node& node, TensorId weight) {
  const NodeSpecs specs = node_specs(smaller.before, node);
  for (const ChannelLink& link : node.op->channel_links(specs.inputs, specs.outputs)) {
    const auto makes = [&](const ChannelPlace& place) {
      return place.use == ChannelUse::makes && node.inputs[place.operand] == weight;
    };
    const auto made = std::ranges::find(link.places, true, &ChannelPlace::is_output);
    if (std::ranges::none_of(link.places, makes) || made == link.places.end()) continue;
    const TensorId y = node.outputs[made->operand];
    return {static_cast<double>(smaller.before.spec(y).shape[made->dimension]),
            static_cast<double>(smaller.shape_after(y)[made->dimension])};
  }
  throw std::logic_error("no channels of " + smaller.before.tensor(weight).name);
}

Change multiply_adds_of(const Program& before, const Node& old, const Program& after, const Node& now) {
  const auto half_flops = [](const Program& program, const Node& node) {
    const auto [inputs, outputs] = node_specs(program, node);
    return node.op->flops(inputs, outputs) / 2;
  };
  return {half_flops(before, old), half_flops(after, now)};
}

/// Of those of the tensors that are parameters.
Change parameters_of(const SmallerNetwork& smaller, const std::vector<TensorId>& tensors) {
  Change change;
  for (const TensorId id : tensors) {
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

/// The first axis of each parameter that makes channels.
std::map<TensorId, ChannelAxis> made_axes(const SmallerNetwork& smaller) {
  std::map<TensorId, ChannelAxis> made;
  for (const ChannelGroup& group : smaller.channels.groups) {
    for (const ChannelAxis& axis : group.axes) {
      if (axis.use == ChannelUse::makes) made.emplace(axis.tensor, axis);
    }
  }
  return made;
}

/// Adds the parameters of the rows `others` and `total`, and what is left of the network.
void fill_sums(const SmallerNetwork& smaller, const std::set<TensorId>& in_rows, PruneRow& others,
               PruneRow& total) {
  std::vector<TensorId> all(smaller.before.tensors.size()), left;
  std::iota(all.begin(), all.end(), TensorId{0});
  std::ranges::set_difference(all, in_rows, std::back_inserter(left));
  others.parameters = parameters_of(smaller, left);
  total.parameters = parameters_of(smaller, all);
  const auto percent = [](const Change& change) { return 100 * change.after / std::max(1.0, change.before); };
  total.note = fmt::format("{:.1f} % of the multiply-adds, {:.1f} % of the parameters",
                           percent(total.multiply_adds), percent(total.parameters));
}

/// A row for each product, for all other operations and parameters, and for the whole network.
std::vector<PruneRow> prune_rows(const SmallerNetwork& smaller, const Program& after) {
  const std::map<TensorId, ChannelAxis> made = made_axes(smaller);
  const std::vector<Node>& old = SmallerNetwork::entry_of(smaller.before).nodes;
  const std::vector<Node>& now = SmallerNetwork::entry_of(after).nodes;
  std::vector<PruneRow> rows;
  PruneRow others{.name = "others"}, total{.name = "total"};
  std::set<TensorId> in_rows;
  for (size_t n = 0; n < old.size(); ++n) {
    const Change multiply_adds = multiply_adds_of(smaller.before, old[n], after, now[n]);
    total.multiply_adds += multiply_adds;
    const auto weight = std::ranges::find_if(old[n].inputs, [&](TensorId id) { return made.contains(id); });
    // An embedding that shares its table multiplies nothing.
    if (weight == old[n].inputs.end() || multiply_adds.before == 0) {
      others.multiply_adds += multiply_adds;
      continue;
    }
    in_rows.insert(old[n].inputs.begin(), old[n].inputs.end());
    rows.push_back({.name = without_suffix(smaller.before.tensor(*weight).name),
                    .channels = channels_of(smaller, old[n], *weight),
                    .multiply_adds = multiply_adds,
                    .parameters = parameters_of(smaller, old[n].inputs),
                    .note = note_of(smaller, made.at(*weight))});
  }
  fill_sums(smaller, in_rows, others, total);
  rows.insert(rows.end(), {others, total});
  return rows;
}

}  // namespace

std::string prune_table(const SmallerNetwork& smaller, const Program& after) {
  const std::vector<PruneRow> rows = prune_rows(smaller, after);
  size_t width = 5;
  for (const PruneRow& row : rows) width = std::max(width, row.name.size());
  std::string text =
      fmt::format("{:<{}} {:>14} {:>20} {:>20}\n", "layer", width, "channels", "multiply-adds", "parameters");
  for (const PruneRow& row : rows) {
    text += fmt::format("{:<{}} {:>14} {:>20} {:>20}{}{}\n", row.name, width,
                        row.channels ? change_text(*row.channels) : "", change_text(row.multiply_adds),
                        change_text(row.parameters), row.note.empty() ? "" : "  ", row.note);
  }
  return text;
}

}  // namespace trainer
