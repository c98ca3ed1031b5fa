// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/shape.h"

namespace trainer {

/// The arrangement of a tensor's elements in memory. Default: row-major, without padding. Otherwise `dims` is
/// a shape with the same number of elements in the same order, and each dimension is rounded up to `padded`.
/// Outer blocks are at `strides` (in elements). Inner blocks of `block_sizes` along `block_dims` follow, the
/// last one densest.
///
/// A layout with a `form` is opaque: the tensor, made once of weights, is stored as a backend likes, in
/// `form_elements` elements' memory. Only that backend's reorder writes it.
struct Layout {
  Shape dims;
  Shape padded;
  std::vector<int64_t> strides;
  std::vector<int64_t> block_sizes;
  std::vector<int64_t> block_dims;
  std::string form = {};
  int64_t form_elements = 0;

  bool operator==(const Layout&) const = default;
  bool row_major() const { return dims.empty(); }
  bool is_opaque() const { return !form.empty(); }
  /// Whether some stored elements belong to no element of the tensor; backends keep them zero.
  bool has_padding() const { return dims != padded; }
};

/// (N, C, H, W) with the channels densest. If that is row-major order anyway (one channel, or one pixel)
/// it is the row-major layout, so that there is one name for it.
Layout channels_last(const Shape& shape);

/// "row-major", "rows at 50304" if there are gaps between them or, as oneDNN writes it, "aBcd16b": dimensions
/// by stride, blocked ones in capitals.
std::string to_string(const Layout& layout);

/// Elements that a tensor of `shape` takes in memory, padding included.
int64_t stored_elements(const Layout& layout, const Shape& shape);

/// The offset that each index along each dimension contributes: an element is at the sum of its own.
std::vector<std::vector<int64_t>> dimension_steps(const Layout& layout);

/// For each element in row-major order, its place in memory. Calls visit(place).
template <class Visit>
void for_each_place(const Layout& layout, const Shape& shape, Visit visit) {
  const Shape& dims = layout.row_major() ? shape : layout.dims;
  const int64_t count = numel(dims);
  if (layout.row_major()) {
    for (int64_t i = 0; i < count; ++i) visit(i);
    return;
  }
  const std::vector<std::vector<int64_t>> steps = dimension_steps(layout);
  const size_t last = dims.size() - 1;
  Shape index(dims.size(), 0);
  for (int64_t done = 0; done < count; done += dims[last]) {
    int64_t base = 0;
    for (size_t d = 0; d < last; ++d) base += steps[d][static_cast<size_t>(index[d])];
    for (int64_t i = 0; i < dims[last]; ++i) visit(base + steps[last][static_cast<size_t>(i)]);
    for (size_t d = last; d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace trainer
