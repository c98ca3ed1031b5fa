// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/mesh.h"
#include "core/base/shape.h"

namespace trainer {

/// How a dimension of a tensor is shared out among the ranks along Axis::tensor. It consists of sections,
/// such as queries, keys and values; each rank has an equal part of each. Zeros fill the last rank's.
struct Sections {
  size_t dimension = 0;
  std::vector<int64_t> lengths;  ///< their sum is the dimension's
  bool operator==(const Sections&) const = default;

  /// Of one rank's part of the dimension.
  int64_t part(int64_t ranks) const;
};

/// Elements that are adjacent in a part and in the whole, both in row-major order.
struct ElementRun {
  int64_t in_part = 0, in_whole = 0, count = 0;
  bool operator==(const ElementRun&) const = default;
};

/// How a persistent tensor is cut. First `sections` are shared out along Axis::tensor, if there are any. Then
/// what one rank has of them is shared out along Axis::shards, if `is_sharded`: its elements in row-major
/// order, in equal parts. Zeros fill the last ones.
struct Part {
  Shape whole;
  Mesh mesh;  ///< of all ranks
  std::optional<Sections> sections = {};
  bool is_sharded = false;
  bool operator==(const Part&) const = default;

  /// Ranks with different parts. Further ranks hold the same parts.
  int64_t count() const;
  /// The number of a rank's part.
  int64_t index(int64_t rank) const;
  /// The first rank that has the part of this number.
  int64_t holder(int64_t index) const;
  /// What the ranks along Axis::shards hold together.
  Shape shape_of_shards() const;
  /// The shape of each part.
  Shape shape() const;
  /// What a part has of the whole; the rest of it is zero.
  std::vector<ElementRun> runs(int64_t index) const;
};

}  // namespace trainer
