// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace trainer {

/// The least and the greatest value that a tensor is expected to have.
struct ValueRange {
  double low = 0, high = 0;
  bool operator==(const ValueRange&) const = default;
};

/// What 8-bit products need besides the weights, which are stored in the same file. Products are named by
/// their weights.
struct Int8Network {
  int64_t weight_bits = 7;                    ///< 7: sums are exact on processors without VNNI, too; or 8
  std::string method;                         ///< that chose the ranges
  int64_t samples = 0;                        ///< whose activations were observed
  std::map<std::string, ValueRange> inputs;   ///< of each product in 8 bits
  std::map<std::string, std::string> in_f32;  ///< the other products, and why
  std::string file;                           ///< that it was read from, for messages
  bool operator==(const Int8Network&) const = default;
};

/// Names the text in the metadata of a file of weights.
constexpr const char* kQuantizationMetadata = "quantization";
/// As JSON. The file's name is not part of it.
std::string to_text(const Int8Network& network);
/// The reverse. Throws Error (exit 65) with the file's name if the text is damaged, or a newer version's.
Int8Network int8_network_from(const std::string& text, const std::string& file);

/// A request to observe the inputs of products. With their ranges the values in each are counted, too.
struct RangeObservation {
  std::map<std::string, ValueRange> ranges;  ///< by the name of the weights; empty: not known yet
};

}  // namespace trainer
