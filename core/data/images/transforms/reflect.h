// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trainer {

/// The place that reflection at the edges leads to, without repeating the edge.
inline int64_t reflect(int64_t i, int64_t size) {
  if (size == 1) return 0;
  while (i < 0 || i >= size) i = i < 0 ? -i : 2 * (size - 1) - i;
  return i;
}

}  // namespace trainer
