// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/shape.h"

namespace trainer {

/// How a tensor's elements lie in memory. Default: row-major, without padding. Otherwise `dims` is a shape of
/// as many elements in the same order, each extent rounded up to `padded`, outer blocks lie at `strides`
/// (in elements) and inner blocks of `block_sizes` along `block_dims` follow, the last one densest.
struct Layout {
  Shape dims;
  Shape padded;
  std::vector<int64_t> strides;
  std::vector<int64_t> block_sizes;
  std::vector<int64_t> block_dims;

  bool operator==(const Layout&) const = default;
  bool row_major() const { return dims.empty(); }
  /// Whether some stored elements belong to no element of the tensor; backends keep them zero.
  bool has_padding() const { return dims != padded; }
};

/// "row-major" or, as oneDNN writes it, "aBcd16b": dimensions by stride, blocked ones in capitals.
std::string to_string(const Layout& layout);

/// Elements that a tensor of `shape` takes in memory, padding included.
int64_t stored_elements(const Layout& layout, const Shape& shape);

/// For each element in row-major order, its place in memory. Calls visit(place).
template <class Visit>
void for_each_place(const Layout& layout, const Shape& shape, Visit visit) {
  const Shape& dims = layout.row_major() ? shape : layout.dims;
  const int64_t count = numel(dims);
  if (layout.row_major()) {
    for (int64_t i = 0; i < count; ++i) visit(i);
    return;
  }
  std::vector<int64_t> index(dims.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t> outer = index;
    int64_t place = 0, inner = 1;
    for (size_t b = layout.block_sizes.size(); b-- > 0;) {
      int64_t& along = outer[static_cast<size_t>(layout.block_dims[b])];
      place += along % layout.block_sizes[b] * inner;
      along /= layout.block_sizes[b];
      inner *= layout.block_sizes[b];
    }
    for (size_t d = 0; d < dims.size(); ++d) place += outer[d] * layout.strides[d];
    visit(place);
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace trainer
