// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// Images in the order of a CSV file, each with its class or, if the file has a column for each class,
/// with any number of them.
struct LabelFile {
  std::vector<std::string> classes;  ///< sorted; of columns in their order
  std::vector<size_t> image;         ///< of each row: place in the list of images
  std::vector<int32_t> label;        ///< of each row: place in classes; none if classes have columns
  std::vector<size_t> set_end;       ///< of each row, if classes have columns: end of its part of `sets`
  std::vector<int32_t> sets;         ///< places in classes, ascending in each row
};

/// Reads a CSV file. With the header `file,label` each row names one of `images`, which are sorted paths
/// below `folder`, and its class; images that no row names are left out. With `file` and the names of
/// classes each row has 1 or 0 for each class, and each image must have a row. Throws Error (exit 65) with
/// file and line.
LabelFile read_label_file(const std::string& path, const std::string& folder,
                          const std::vector<std::string>& images);
/// The same of the file's text.
LabelFile parse_label_file(std::string_view text, const std::string& path, const std::string& folder,
                           const std::vector<std::string>& images);

}  // namespace trainer
