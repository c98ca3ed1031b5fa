// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace trainer {

/// Sizes of a tensor, outermost first: images are (N, C, H, W). A scalar is {1}.
using Shape = std::vector<int64_t>;

/// No dimension of a tensor is larger: oneDNN and cuDNN count in 32 bits.
constexpr int64_t kMaxDimension = 2147483647;
/// Bytes of some thousand such tensors still fit into 63 bits.
constexpr int64_t kMostElements = int64_t{1} << 44;

/// A tensor too large for any memory (exit 78). A caller that knows its part of the recipe adds the place.
class TooLarge : public Error {
 public:
  explicit TooLarge(const Shape& shape);
};

/// Number of elements. Throws TooLarge if there are more than kMostElements.
int64_t numel(const Shape& shape);

/// Throws TooLarge if a tensor may not have this shape.
void require_addressable(const Shape& shape);

/// "128x1x28x28".
std::string to_string(const Shape& shape);

}  // namespace trainer
