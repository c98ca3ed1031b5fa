// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/pruning/channel_choice.h"
#include "core/pruning/cut_tensors.h"
#include "core/recipe/run_spec.h"
#include "core/storage/safetensors.h"

namespace trainer {

/// Which channels a network loses.
struct PruneRequest {
  KeptShare kept;
  Importance by = Importance::l1;
  std::vector<std::string> except = {};  ///< patterns of layers and of their parameters, whose channels stay
};

/// A trained network and the channels that it loses.
struct SmallerNetwork {
  Program before;            ///< the forward part, for one sample
  CoupledChannels channels;  ///< of it; `stays` of groups that lose nothing says why
  RemovedChannels removed;

  /// The entry of `before` with the network, and of the program that write_smaller returns.
  static const Entry& entry_of(const Program& program);
  Shape shape_after(TensorId tensor) const { return cut_shape(before, channels, removed, tensor); }
};

/// Chooses the channels that a recipe's network loses, from its weights. Throws Error: exit 64 if a pattern
/// matches nothing, 78 if no channel can be removed.
SmallerNetwork choose_channels(const RunSpec& spec, const TensorValues& values, const PruneRequest& request);

/// Writes the smaller network's recipe.yaml and model.safetensors into a directory, which must be absent or
/// empty and then has both files or, after a failure, none. Returns the forward part of the network that
/// these files make, which has been compared with the expected one. Throws Error: exit 64 if there is
/// anything in the directory, 74 if it cannot be written, 78 at a layer whose keys cannot express its new
/// size.
Program write_smaller(const SmallerNetwork& smaller, const RunSpec& spec, const TensorValues& values,
                      const StoredMetadata& metadata, const std::filesystem::path& directory);

}  // namespace trainer
