// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/pruning/channel_groups.h"

namespace trainer {

/// The positions of elements of a row-major tensor along one of its dimensions.
struct AlongDimension {
  int64_t size = 0;   ///< of the dimension
  int64_t inner = 1;  ///< elements of one position that are neighbours

  AlongDimension(const Shape& shape, size_t dimension);
  size_t position(size_t element) const {
    return static_cast<size_t>(static_cast<int64_t>(element) / inner % size);
  }
};

/// By channel, whether it is removed.
using RemovedChannels = std::vector<bool>;

/// A tensor's shape without the positions of removed channels.
Shape cut_shape(const Program& program, const CoupledChannels& channels, const RemovedChannels& removed,
                TensorId tensor);

/// A tensor's values without those positions.
std::vector<float> cut_values(const Program& program, const CoupledChannels& channels,
                              const RemovedChannels& removed, TensorId tensor, std::vector<float> values);

}  // namespace trainer
