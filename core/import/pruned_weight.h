// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/import/torch_state.h"

namespace trainer {

// torch.nn.utils.prune saves a weight as NAME_orig and NAME_mask; the layer multiplies one by the other.

/// Makes one tensor of each such pair, NAME with its mask. Returns the names of masks that do not have their
/// weight's shape.
std::vector<std::string> join_masks(std::vector<TorchTensor>& tensors);

/// Sets the elements of a weight to zero whose mask is 0; both are of contiguous elements of these types.
/// Returns false, with nothing changed, if an element of the mask is neither 0 nor 1.
bool apply_mask(std::span<std::byte> weight, std::string_view type, std::span<const std::byte> mask,
                std::string_view type_of_mask);

}  // namespace trainer
