// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainer {

/// One hyper-parameter: a range of numbers, or a list of choices by index. Bounds are inclusive and finite,
/// those of integers whole and below 2^53; a logarithmic range begins above 0. Nothing here checks this.
struct Dimension {
  enum class Kind { real, integer, choice };
  /// An earlier dimension, which is a choice, has one of these indices.
  struct Condition {
    size_t dimension = 0;
    std::vector<int64_t> choices;
  };

  std::string name;
  Kind kind = Kind::real;
  double low = 0, high = 0;           ///< of a range
  bool logarithmic = false;           ///< a range whose ratios count, not its differences
  int64_t choices = 0;                ///< how many, at least 1
  std::vector<Condition> conditions;  ///< it exists only if all hold
};

using Space = std::vector<Dimension>;

/// The value of each dimension: a number, or the index of a choice; nothing if the dimension does not exist.
using Setting = std::vector<std::optional<double>>;

/// Whether a dimension exists, given the values of those before it.
bool exists(const Space& space, const Setting& so_far, size_t dimension);
/// Whether the dimensions that exist, and no others, have values, each within its bounds.
bool contains(const Space& space, const Setting& setting);
/// Whether a dimension has only one value, which is then `low` or choice 0.
bool is_single(const Dimension& dimension);

/// Uniform in each range or its logarithm, and among choices. A pure function: a dimension's value depends
/// on the seed, the number and its own name only.
Setting random_setting(const Space& space, uint64_t seed, int64_t number);

}  // namespace trainer
