// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/graph/operation.h"

namespace trainer {

/// A dimension of a parameter or running statistic in which channels have positions.
struct ChannelAxis {
  TensorId tensor = kNone;
  size_t dimension = 0;
  ChannelUse use = ChannelUse::passes;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0
  auto operator<=>(const ChannelAxis&) const = default;
};

/// Channels that differ only in their positions: all have some in the same dimensions of the same parameters.
struct ChannelGroup {
  std::set<ChannelAxis> axes;
  std::vector<size_t> channels;  ///< their numbers, ascending
  int64_t width = 1;             ///< positions of a channel where it has the fewest among those that make it
  std::string stays;             ///< why none of them may be removed; empty: any of them may
};

/// Which positions of a network's tensors have to be removed together. A channel is a set of such positions,
/// and each position along each dimension belongs to one channel (Fang et al., "DepGraph: Towards Any
/// Structural Pruning", CVPR 2023, find the same sets by layers).
struct CoupledChannels {
  /// The channel of a position: by tensor, dimension, position. Empty for tensors that the entry does not
  /// use.
  std::vector<std::vector<std::vector<size_t>>> of;
  std::vector<ChannelGroup> groups;  ///< of channels that weights make, in the order of parameters
  size_t count = 0;                  ///< of channels
};

/// Finds the channels of a forward part from what its operations state (Operation::channel_links). Those of
/// the entry's inputs, outputs and constant tables stay, and those that meet an operation which does not name
/// them.
/// `layer_of` gives the name of a node's layer, for the reasons.
CoupledChannels find_channels(const Program& program, const Entry& entry,
                              const std::function<std::string(const Origin&)>& layer_of);

}  // namespace trainer
