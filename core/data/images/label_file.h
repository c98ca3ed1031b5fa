// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer {

/// Pictures in the order of a CSV file, with their classes.
struct LabelFile {
  std::vector<std::string> classes;  ///< sorted
  std::vector<size_t> picture;       ///< of each row: place in the list of pictures
  std::vector<int32_t> label;        ///< of each row: place in classes
};

/// Reads a CSV file with the header `file,label`. Each row names one of `pictures`, which are sorted paths
/// below `folder`, and its class; pictures that no row names are left out. Throws Error (exit 65) with file
/// and line.
LabelFile read_label_file(const std::string& path, const std::string& folder,
                          const std::vector<std::string>& pictures);

}  // namespace trainer
