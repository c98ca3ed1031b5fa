// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/data/images/source.h"

namespace trainer {

/// Names that begin with a dot.
bool is_hidden_name(const std::filesystem::path& path);

/// The files below a folder that end in .jpg, .jpeg, .png, .webp or .bmp in any case, at any depth, without
/// hidden ones: their paths relative to it, sorted. Throws std::filesystem::filesystem_error.
std::vector<std::string> images_below(const std::filesystem::path& folder);

/// The files given by words of a command line, in their order: a folder means the images below it. Throws
/// Error: exit 65 for a folder without images, 74 from the system.
std::vector<std::string> image_files(const std::vector<std::string>& words);

/// JPEG, PNG, WebP and BMP files without labels as samples of `shape` (C, H, W); C is 3 or, for grey ones, 1;
/// see is_fixed. An unreadable file, or one of another size, throws UnreadableSampleError.
std::unique_ptr<ImageSource> open_image_files(std::vector<std::string> files, const Shape& shape,
                                              int64_t max_pixels);

}  // namespace trainer
