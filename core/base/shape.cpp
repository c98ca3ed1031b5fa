// SPDX-License-Identifier: Apache-2.0
#include "core/base/shape.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainer {

TooLarge::TooLarge(const Shape& shape)
    : Error(ExitCode::recipe, "a tensor of shape " + to_string(shape) + " is too large for any memory") {}

int64_t numel(const Shape& shape) {
  int64_t product = 1;
  for (int64_t size : shape) {
    if (__builtin_mul_overflow(product, size, &product) || product > kMostElements) throw TooLarge(shape);
  }
  return product;
}

void require_addressable(const Shape& shape) {
  const bool fits = std::ranges::all_of(shape, [](int64_t size) { return size <= kMaxDimension; });
  if (!fits) throw TooLarge(shape);
  numel(shape);
}

std::string to_string(const Shape& shape) {
  return fmt::format("{}", fmt::join(shape, "x"));
}

}  // namespace trainer
