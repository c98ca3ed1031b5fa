// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/pruning/channel_groups.h"
#include "tests/reference/networks.h"

namespace trainer::test {

/// A network's evaluation with its channels.
struct ChannelsOf {
  Program program;
  CoupledChannels channels;

  /// The network of a recipe's keys `input` and `layers`.
  explicit ChannelsOf(const std::string& text) : ChannelsOf(network_from(text)) {}
  explicit ChannelsOf(const Network& network) : program(forward_program(network, 1)) {
    std::map<std::string, std::string> layers;
    for (size_t i = 0; i < network.layers.size(); ++i)
      layers[network.layers[i]->origin.path] = network.layer_name(i);
    // The loss has none.
    channels = find_channels(program, program.entry(entry_name::kEvaluate),
                             [&](const Origin& origin) { return layers[origin.path]; });
  }

  const ChannelGroup& group(const std::string& maker) const {
    const TensorId id = program.find(maker);
    for (const ChannelGroup& group : channels.groups) {
      for (const ChannelAxis& axis : group.axes) {
        if (axis.tensor == id && axis.use == ChannelUse::makes) return group;
      }
    }
    throw std::logic_error("nothing makes " + maker);
  }

  /// "8 of a.weight[0]* b.weight[1]": the number of channels and the parameters' dimensions that have them,
  /// those that make them with a star; or "stays: why".
  std::string text(const std::string& maker) const {
    const ChannelGroup& found = group(maker);
    if (!found.stays.empty()) return "stays: " + found.stays;
    std::set<std::string> places;
    for (const ChannelAxis& axis : found.axes)
      places.insert(fmt::format("{}[{}]{}", program.tensor(axis.tensor).name, axis.dimension,
                                axis.use == ChannelUse::makes ? "*" : ""));
    return fmt::format("{} of {}", found.channels.size(), fmt::join(places, " "));
  }
};

}  // namespace trainer::test
