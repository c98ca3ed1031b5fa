// SPDX-License-Identifier: Apache-2.0
#include "core/base/shape.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace trainer {

int64_t numel(const Shape& shape) {
  int64_t product = 1;
  for (int64_t extent : shape) {
    if (__builtin_mul_overflow(product, extent, &product)) {
      throw Error(ExitCode::recipe, "a tensor of shape " + to_string(shape) + " is too large to address");
    }
  }
  return product;
}

std::string to_string(const Shape& shape) {
  return fmt::format("{}", fmt::join(shape, "x"));
}

}  // namespace trainer
