// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/data/images/source.h"
#include "core/data/skipped_files.h"

namespace trainer {

/// Names that begin with a dot.
bool is_hidden_name(const std::filesystem::path& path);

/// Whether a name has the ending of an image, in any case, that this program reads.
bool is_image_name(const std::filesystem::path& path);

/// For messages: ".jpg, .jpeg, .png, .webp, .bmp or .gif", and those that the build has a library for.
std::string image_endings();

/// The images below a folder by their names, at any depth, without hidden ones: their paths relative to it,
/// sorted. Adds all others to `skipped`, with links to folders, which are not followed. Throws
/// std::filesystem::filesystem_error.
std::vector<std::string> images_below(const std::filesystem::path& folder, SkippedFiles& skipped);

/// The error for a folder without images: exit 65, with the types of those that it has.
Error no_images(const std::filesystem::path& folder, const SkippedFiles& skipped);

/// The files given by words of a command line, in their order: a folder means the images below it. Throws
/// Error: exit 65 for a folder without images, 74 from the system.
std::vector<std::string> image_files(const std::vector<std::string>& words);

/// Image files without labels as samples of `shape` (C, H, W); C is 3 or, for grey ones, 1;
/// see is_fixed. An unreadable file, or one of another size, throws UnreadableSampleError.
std::unique_ptr<ImageSource> open_image_files(std::vector<std::string> files, const Shape& shape,
                                              int64_t max_pixels);

/// Image files that are named while the source is in use.
class ArrivingImageFiles : public ImageSource {
 public:
  /// From now on the samples are these files. No thread may be reading.
  virtual void replace(std::vector<std::string> files) = 0;
};

/// A source as above that has no files yet.
std::unique_ptr<ArrivingImageFiles> open_arriving_files(const Shape& shape, int64_t max_pixels);

}  // namespace trainer
