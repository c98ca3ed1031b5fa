// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer {

/// Extents of a tensor, outermost first: images are (N, C, H, W). A scalar is {1}.
using Shape = std::vector<int64_t>;

/// Number of elements. Throws Error where the product does not fit into 63 bits.
int64_t numel(const Shape& shape);

/// "128x1x28x28".
std::string to_string(const Shape& shape);

}  // namespace trainer
