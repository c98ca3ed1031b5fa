// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/starter.h"

namespace trainer {

/// The facts about images with masks; the classes are those of the masks' values, or of the file of names.
/// Reads at most `most` of them. Throws Error (exit 65).
Starter measure_masks(const FoundData& found, int64_t most);

}  // namespace trainer
