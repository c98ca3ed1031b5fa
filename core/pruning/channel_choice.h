// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/pruning/channel_groups.h"

namespace trainer {

/// The values of a parameter or running statistic, row-major.
using TensorValues = std::function<std::vector<float>(const Tensor&)>;

/// How much a channel matters: `l1`, the sum of the absolute weights that make it (Li et al., "Pruning
/// Filters for Efficient ConvNets", ICLR 2017), those of each parameter divided by their mean over the
/// group's channels; or `gamma`, the sum of its absolute factors in batch normalisations (Liu et al.,
/// "Learning Efficient Convolutional Networks through Network Slimming", ICCV 2017).
enum class Importance { l1, gamma };

/// How many channels a group keeps.
struct KeptShare {
  double share = 0.5;    ///< of the channels, in (0, 1]
  int64_t multiple = 8;  ///< rounded up to, but not above all of them
};

/// Of a group with this many channels, each of `width` positions, the number that stay: the least whose
/// positions are a multiple.
size_t kept_count(size_t channels, int64_t width, const KeptShare& kept);

/// The importance of each of a group's channels, in their order. Zeros if no parameter of the group says.
std::vector<double> importances(const Program& program, const CoupledChannels& channels,
                                const ChannelGroup& group, Importance by, const TensorValues& values);

/// Places of the smallest values, all but `kept`; of equal ones the last.
std::vector<size_t> least(std::span<const double> values, size_t kept);

/// Whether a parameter of the group has this use.
bool has_use(const ChannelGroup& group, ChannelUse use);

}  // namespace trainer
