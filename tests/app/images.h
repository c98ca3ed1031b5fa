// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/app/command.h"

namespace trainer {

/// A recipe that distinguishes the folders `bright` and `dark`, below `train` and `val`; its run is in `run`.
extern const char* const kImageRecipe;

/// A PNG of a single grey pixel.
std::string image(bool is_dark);

/// `count` images of both classes in this folder: `bright/100.png`, `dark/100.png`, …
void fill_with_images(const Workspace& workspace, const std::string& folder, int count);

}  // namespace trainer
