// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/base/activation_levels.h"
#include "core/base/weight_bits.h"

namespace trainer {

/// The least and the greatest value that a tensor is expected to have.
struct ValueRange {
  double low = 0, high = 0;
  bool operator==(const ValueRange&) const = default;
};

/// The ranges of the inputs of products, by the name of their weights.
using InputRanges = std::map<std::string, ValueRange>;

/// The method of ranges that training found.
constexpr std::string_view kFromTraining = "training";

/// What 8-bit products need besides the weights, which are stored in the same file. Products are named by
/// their weights.
struct Int8Network {
  WeightLevels weights = {.bits = 7};  ///< 8: sums are exact on processors with VNNI only
  ActivationLevels activations;        ///< stored in 8 bits, whatever bits they have
  std::string method;                  ///< that chose the ranges
  int64_t samples = 0;                 ///< whose activations were observed; 0: training found the ranges
  InputRanges inputs;                  ///< of each product in 8 bits
  std::map<std::string, std::string> in_f32;  ///< the other products, and why
  std::string file;                           ///< that it was read from, for messages
  bool operator==(const Int8Network&) const = default;
  /// Whether it was trained with rounded numbers (compression.quantize).
  bool is_from_training() const { return method == kFromTraining; }
};

/// Names the text in the metadata of a file of weights.
constexpr const char* kQuantizationMetadata = "quantization";
/// As JSON. The file's name is not part of it.
std::string to_text(const Int8Network& network);
/// The reverse. Throws Error (exit 65) with the file's name if the text is damaged, or a newer version's.
Int8Network int8_network_from(const std::string& text, const std::string& file);

/// Names the text in the metadata of a file of weights with the ranges that training found
/// (compression.quantize).
constexpr const char* kRangesMetadata = "ranges";
/// As JSON: two numbers for each name.
std::string ranges_text(const InputRanges& ranges);
/// The reverse. Throws Error (exit 65) with the file's name if the text is damaged.
InputRanges ranges_from(const std::string& text, const std::string& file);

/// A request to observe the inputs of products. With their ranges the values in each are counted, too.
struct RangeObservation {
  InputRanges ranges;  ///< empty: not known yet
};

}  // namespace trainer
