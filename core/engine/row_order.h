// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "core/base/shape.h"
#include "core/engine/layout.h"

namespace trainer {

// Elements of `element` bytes each, as a layout stores them and in row-major order.

/// Gives the elements that are stored at `from` in row-major order, in pieces.
void read_in_row_order(const std::byte* from, const Shape& shape, const Layout& layout, int64_t element,
                       const std::function<void(std::span<const std::byte>)>& sink);
/// Stores elements that are in row-major order; padding becomes zero. Throws std::logic_error if there are
/// more or fewer bytes than the shape has.
void write_in_row_order(std::span<const std::byte> rows, const Shape& shape, const Layout& layout,
                        int64_t element, std::byte* to);

}  // namespace trainer
