// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/data/images/named_images.h"

namespace trainer {

/// The columns of a table of labels: either one names the class of each image, or each class has one.
struct LabelColumns {
  std::vector<std::string> names;  ///< of all columns; none if the first record is of an image
  size_t fields = 2;               ///< of each record
  size_t file = 0;
  std::optional<size_t> label;
  std::vector<size_t> classes;  ///< if there is no `label`
  std::optional<size_t> group;  ///< the column of data.split_by
};

/// Finds the columns of the table that `table` reads from its beginning. The file's column is the first that
/// names images. The label's column is the only other one, or the one of a usual name: label, class, target.
/// Columns of 0 and 1 alone are classes. `group` names a column that is none of these, or is empty. Throws
/// Error (exit 65) with the columns that were found and what was expected.
LabelColumns find_label_columns(const CsvReader& table, const NamedImages& images,
                                const std::string& group = "");

}  // namespace trainer
