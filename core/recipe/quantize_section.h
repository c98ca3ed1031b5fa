// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/config/fields.h"
#include "core/step/fake_quantize.h"

namespace trainer {

/// compression.quantize: training rounds the factors of products to few bits.
struct QuantizeSection {
  std::optional<int64_t> weight_bits;  ///< absent: nothing is rounded
  int64_t activation_bits = kMostBits;
  std::string scales = "any", weights = "per_channel";
  Duration begin{0, Duration::Unit::batches};
  std::vector<std::string> except;
  void declare(Fields& fields);

  bool is_asked() const { return weight_bits.has_value(); }
  WeightLevels weight_levels() const;
  ActivationLevels activation_levels() const;
  /// `begin_step`: `begin` in steps; `origin_of` finds the place of a key of the recipe.
  FakeQuantizeSpec spec(int64_t begin_step, const std::function<Origin(const std::string&)>& origin_of) const;
  /// Reports keys without weight_bits.
  void check(const std::function<Origin(const std::string&)>& origin_of, Diagnostics& diagnostics) const;
};

}  // namespace trainer
