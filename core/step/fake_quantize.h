// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/activation_levels.h"
#include "core/graph/program.h"

namespace trainer {

/// How training rounds the factors of products that can be computed in 8 bits (step/quantized_products.h):
/// those of all such convolutions and linear layers but the excepted ones, and but convolutions that pad an
/// input which may be negative, as these are computed in f32 anyway.
struct FakeQuantizeSpec {
  WeightLevels weights;
  ActivationLevels activations;
  int64_t begin = 0;                ///< the step from which on numbers are rounded
  std::vector<std::string> except;  ///< patterns of names of weights
  std::function<Origin(const std::string& key)>
      origin_of;  ///< the place of a key of compression.quantize, or of it
};

/// The names of the weights of those products in a network's forward part. Throws Error (exit 78) if there
/// are none, or if a pattern matches none.
std::vector<std::string> fake_quantized(const Program& program, const FakeQuantizeSpec& spec);

}  // namespace trainer
