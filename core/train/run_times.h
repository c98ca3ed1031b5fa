// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/executable.h"

namespace trainer {

/// Times of equal runs, and the energy of all of them.
struct RunTimes {
  std::vector<double> seconds;   ///< of each run, in their order
  std::optional<double> joules;  ///< nothing if the device does not count energy

  double total() const;
  /// The least time that this share of the runs, in (0, 1], did not exceed: the nearest rank.
  double percentile(double share) const;
};

/// Calls `run` `warm_up` times, then measures `runs` calls of it. Each ends when the device is done.
RunTimes time_runs(Device& device, int64_t warm_up, int64_t runs, const std::function<void()>& run);

/// Mean seconds of a run in the nodes of one layer, or of another part of the program.
struct LayerTime {
  std::string place;     ///< in the recipe: "model.layers[4].conv2d", "loss", "optimizer"
  PhaseSeconds seconds;  ///< forward, backward, update
};

/// Times `runs` calls of `run` node by node: the device finishes each before the next, and replays no graph.
/// Layers are in the order in which they run first.
std::vector<LayerTime> time_layers(Executable& executable, int64_t runs, const std::function<void()>& run);

}  // namespace trainer
