// SPDX-License-Identifier: Apache-2.0
#include "core/engine/layout.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <numeric>

namespace trainer {

Layout channels_last(const Shape& shape) {
  if (shape[1] == 1 || shape[2] * shape[3] == 1) return {};
  return {.dims = shape,
          .padded = shape,
          .strides = {shape[1] * shape[2] * shape[3], 1, shape[1] * shape[3], shape[1]},
          .block_sizes = {},
          .block_dims = {}};
}

std::string to_string(const Layout& layout) {
  if (layout.row_major()) return "row-major";
  if (layout.is_opaque()) return layout.form;
  const size_t rank = layout.dims.size();
  if (rank > 1 && layout.block_sizes.empty() && layout.strides[rank - 1] == 1 &&
      layout.strides[rank - 2] > layout.padded[rank - 1] &&
      std::ranges::is_sorted(layout.strides, std::greater()))
    return "rows at " + std::to_string(layout.strides[rank - 2]);
  std::vector<size_t> order(layout.dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return layout.strides[a] > layout.strides[b]; });
  auto blocked = [&](size_t d) {
    return std::find(layout.block_dims.begin(), layout.block_dims.end(), static_cast<int64_t>(d)) !=
           layout.block_dims.end();
  };
  std::string text;
  for (size_t d : order) text += static_cast<char>((blocked(d) ? 'A' : 'a') + static_cast<char>(d));
  for (size_t b = 0; b < layout.block_sizes.size(); ++b) {
    text += std::to_string(layout.block_sizes[b]) + static_cast<char>('a' + layout.block_dims[b]);
  }
  return text;
}

int64_t stored_elements(const Layout& layout, const Shape& shape) {
  if (layout.row_major()) return numel(shape);
  if (layout.is_opaque()) return layout.form_elements;
  int64_t last = 0, inner = 1;
  Shape outer = layout.padded;
  for (size_t b = 0; b < layout.block_sizes.size(); ++b) {
    outer[static_cast<size_t>(layout.block_dims[b])] /= layout.block_sizes[b];
    inner *= layout.block_sizes[b];
  }
  for (size_t d = 0; d < outer.size(); ++d) last += (outer[d] - 1) * layout.strides[d];
  return last + inner;
}

std::vector<std::vector<int64_t>> dimension_steps(const Layout& layout) {
  std::vector<std::vector<int64_t>> steps(layout.dims.size());
  for (size_t d = 0; d < layout.dims.size(); ++d) {
    for (int64_t i = 0; i < layout.dims[d]; ++i) {
      int64_t outer = i, place = 0, inner = 1;
      for (size_t b = layout.block_sizes.size(); b-- > 0; inner *= layout.block_sizes[b]) {
        if (static_cast<size_t>(layout.block_dims[b]) != d) continue;
        place += outer % layout.block_sizes[b] * inner;
        outer /= layout.block_sizes[b];
      }
      steps[d].push_back(place + outer * layout.strides[d]);
    }
  }
  return steps;
}

}  // namespace trainer
