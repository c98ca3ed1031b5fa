// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/quantization/int8_network.h"

namespace trainer {

/// How often values were in each of equal parts of a range.
struct ValueCounts {
  ValueRange range;
  std::vector<double> counts;
};

/// How a tensor's range follows from values that were observed. Values beyond the range are clipped to it.
enum class RangeMethod {
  min_max,     ///< all of them, and zero
  percentile,  ///< all but the ten-thousandth part of the largest magnitudes
  entropy      ///< as entropy_range
};
std::string_view to_string(RangeMethod method);
std::optional<RangeMethod> range_method_named(std::string_view name);
std::vector<std::string> range_method_names();

/// The range to count values in, given their extremes: these, or a symmetric one if there are negative
/// values, so that the parts are steps of magnitude on both sides of zero.
ValueRange counted_range(const ValueRange& extremes);

/// The range up to the least magnitude that leaves at most 1 - `share` of the values beyond it.
ValueRange percentile_range(const ValueCounts& observed, double share);

/// The range whose values in bytes tell most about the values as they were: the Kullback-Leibler divergence
/// of both distributions is least (Migacz, "8-bit Inference with TensorRT", GTC 2017). Zero is exact in
/// bytes, so its part counts like its neighbour, unlike there.
ValueRange entropy_range(const ValueCounts& observed);

/// By any of the methods; `extremes` are those of all values.
ValueRange range_of(RangeMethod method, const ValueRange& extremes, const ValueCounts& observed);

}  // namespace trainer
