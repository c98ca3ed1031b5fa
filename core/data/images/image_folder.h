// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/data/images/source.h"

namespace trainer {

/// Shape of a sample: colour, of any size.
const Shape kImageShape = {3, -1, -1};

/// One split of a set of images in folders.
struct ImageFolders {
  std::string path;
  int64_t max_pixels;
  std::string labels = "";     ///< path of a CSV file; empty: the sub-folders are the classes
  std::string split_by = "";   ///< the file's column of groups; empty: none
  bool is_unlabelled = false;  ///< a folder without sub-folders is a set of images without classes
};

/// Image files in one folder for each class: classes sorted by name, files by their path
/// below it. Takes files with the endings of images (is_image_name), at any depth; names that
/// begin with a dot are skipped. With a CSV file
/// of labels, in its order: see read_label_file. Throws Error: exit 65 if there are no classes or one has
/// no images, exit 74 from the system.
std::unique_ptr<ImageSource> open_image_folder(const ImageFolders& folders);

/// Lists the files without opening them, perhaps with their labels and groups.
SourceInfo peek_image_folder(const ImageFolders& folders, bool wants_labels = false);

}  // namespace trainer
