// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/graph/operation.h"
#include "core/quantization/int8_network.h"

namespace trainer {

/// Outputs of an entry whose products are observed; the name of the product follows.
namespace observed_name {
constexpr const char* kExtremes = "extremes.";  ///< f32 (2), of the product's input
constexpr const char* kCounts = "counts.";      ///< i32 (ObserveRange::kBins)
}  // namespace observed_name

/// A product that can be computed in 8 bits.
struct QuantizableProduct {
  size_t node;       ///< position in its entry
  std::string name;  ///< of its weights: the parameter, whatever was folded into it
  QuantizedForm form;
};

/// Those of an entry, in order. Products that share weights with others are left out: a name has one range.
std::vector<QuantizableProduct> quantizable_products(const Program& program, const Entry& entry);

/// The bytes that stand for a range (base/activation_levels.h). The scale is 1 if it has only zeros.
Quantization quantization_of(const ValueRange& range, const ActivationLevels& levels = {});

}  // namespace trainer
