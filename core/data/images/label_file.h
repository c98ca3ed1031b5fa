// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// Images in the order of a table, each with its class or, if the table has a column for each class, with
/// any number of them.
struct LabelFile {
  std::vector<std::string> classes;  ///< sorted; of columns in their order
  std::vector<size_t> image;         ///< of each row: place in the list of images
  std::vector<int32_t> label;        ///< of each row: place in classes; none if classes have columns
  std::vector<size_t> set_end;       ///< of each row, if classes have columns: end of its part of `sets`
  std::vector<int32_t> sets;         ///< places in classes, ascending in each row
  std::vector<int32_t> group;        ///< of each row: number of its value of data.split_by; none without it
  int64_t rows_elsewhere = 0;        ///< of a table outside of the folder, whose images are not in it
};

/// Reads a table (CSV, or with semicolons or tabs) that names the class of each image, or has a column of 0
/// and 1 for each class; see find_label_columns. `images` are sorted paths below `folder`. Images that no
/// row names are left out, but with columns of classes each needs a row. Throws Error (exit 65) with file and
/// line.
LabelFile read_label_file(const std::string& path, const std::string& folder,
                          const std::vector<std::string>& images, const std::string& group = "");
/// The same of the file's text.
LabelFile parse_label_file(std::string_view text, const std::string& path, const std::string& folder,
                           const std::vector<std::string>& images, const std::string& group = "");

}  // namespace trainer
