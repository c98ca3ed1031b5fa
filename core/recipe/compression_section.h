// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/config/fields.h"
#include "core/pruning/settings.h"
#include "core/recipe/quantize_section.h"
#include "core/step/prune.h"

namespace trainer {

/// What makes the network smaller while it is trained.
struct CompressionSection {
  std::optional<double> sparsity;  ///< absent: weights are not pruned
  std::string scope = "layer", pattern = "unstructured";
  Duration begin{0, Duration::Unit::batches};
  std::optional<Duration> end;  ///< absent: `begin`
  Duration every{100, Duration::Unit::batches};
  std::vector<std::string> only, except;
  QuantizeSection quantize;
  void declare(Fields& fields);

  bool prunes() const { return sparsity.has_value(); }
  bool is_two_of_four() const;
  /// `origin_of` finds the place of a key of the recipe.
  PruneSpec prune_spec(const std::function<Origin(const std::string&)>& origin_of) const;
  /// In steps, which `steps_in` counts in a duration.
  PruningSettings settings(const std::function<int64_t(const Duration&)>& steps_in) const;
  /// Reports keys that contradict each other.
  void check(const std::function<Origin(const std::string&)>& origin_of, Diagnostics& diagnostics) const;
};

}  // namespace trainer
