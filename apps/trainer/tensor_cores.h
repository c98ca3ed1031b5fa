// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/recipe/job.h"

namespace trainer {

/// A product of the forward pass: whether it runs on tensor cores, and the share of padding in their work.
/// Dimensions are padded to a multiple of 16 bytes.
struct ProductOnTensorCores {
  std::string name;  ///< its place in the recipe
  std::string operation;
  bool runs = false;
  double padding = 0;  ///< the part of its products
  std::string advice;  ///< "3 input channels are computed as 8"; empty without padding
};

/// Of the first entry's convolutions and matrix products with weights.
std::vector<ProductOnTensorCores> products_on_tensor_cores(const Job& job);

/// A line for each product that pads or runs elsewhere, after the count of those that do neither.
std::string tensor_core_text(const Job& job);
Json tensor_core_json(const Job& job);

}  // namespace trainer
