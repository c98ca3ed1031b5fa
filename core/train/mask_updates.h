// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/engine/executable.h"
#include "core/pruning/settings.h"

namespace trainer {

/// Sets the masks of pruned weights between steps, on the host. Masks are a function of the weights and of
/// the masks before, so ranks with the same weights get the same masks, and doing it twice changes nothing.
/// Holds one tensor and its mask at a time.
class MaskUpdates {
 public:
  /// `weights`: those that the program applies masks to.
  MaskUpdates(Executable& executable, const PruningSettings& settings,
              const std::vector<PrunedWeight>& weights);

  bool is_due(int64_t step) const { return settings_.is_due(step); }
  /// Takes out what is to be taken out after this step: sets masks, and weights and their averages to zero
  /// there. Nothing may be in flight. Returns the share of all weights that is taken out then.
  double update(int64_t step);

  /// Host memory for one tensor, its mask and both in the order of their rows.
  static int64_t host_bytes(const Plan& plan, const std::vector<PrunedWeight>& weights);

 private:
  struct Pruned {
    TensorId weights, mask, average;  ///< kNone: no average is kept
    Shape shape;
    size_t dimension;
  };
  /// Changes weights and mask in place.
  using Change = std::function<void(const Pruned&, std::span<float>, std::span<uint8_t>)>;

  void take_least(std::span<const Pruned> tensors, int64_t count);
  void change(const Pruned& tensor, const Change& change);

  Executable& executable_;
  PruningSettings settings_;
  std::vector<Pruned> tensors_;
  int64_t elements_ = 0, taken_ = 0;  ///< of all tensors; taken out by the present update
};

}  // namespace trainer
