// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/predicted_time.h"

namespace trainer {

/// The seconds of a step's nodes on one rank, as a profile has them (Trace).
class MeasuredNodes {
 public:
  /// Throws Error (exit 65) if the file is no profile of this program.
  explicit MeasuredNodes(const std::filesystem::path& trace);

  /// Of the `place`-th of `count` nodes in an entry that have this label and phase: the median over the
  /// profile's steps and micro-batches. A node with more or less work than the measured one takes
  /// proportionally more or less. A node that was not measured takes the others' mean time a byte.
  double seconds(const Node& node, const NodeWork& work, size_t place, size_t count) const;
  /// Whether such a node was measured.
  bool has(const Node& node) const { return find(node) != nullptr; }

 private:
  struct Measurement {
    double seconds = 0;
    NodeWork work;
  };
  using Key = std::pair<std::string, std::string>;  ///< label, phase

  const std::vector<std::vector<Measurement>>* find(const Node& node) const;

  std::map<Key, std::vector<std::vector<Measurement>>> steps_;  ///< by step, in order
  double seconds_per_byte_ = 0;
};

}  // namespace trainer
