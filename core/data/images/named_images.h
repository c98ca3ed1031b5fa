// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/data/csv.h"

namespace trainer {

/// Finds the images that rows of a table name, each once: by their path below `folder` or, if the table is
/// elsewhere, by their path from there; otherwise by the path, or the name alone, perhaps without its
/// ending.
class NamedImages {
 public:
  /// `images` are sorted paths below `folder`, and `table` is the table's path; both must outlive this.
  NamedImages(const std::string& table, const std::string& folder, const std::vector<std::string>& images);

  /// Whether a field names an image.
  bool names_image(const std::string& field) const { return !places_of(field).empty(); }

  /// The place of the image that a field of the row names; nothing if a table outside of the folder names
  /// one that is not in the folder. Throws Error (exit 65) if there is no such image, if there are several,
  /// or if an earlier row has named it.
  std::optional<size_t> take(const CsvReader& reader, const CsvRow& row, const std::string& field);

  /// Throws Error (exit 65) at this line if an image has no row.
  void require_all(const CsvReader& reader, int64_t last_line) const;

  const std::string& folder() const { return folder_; }

 private:
  using Name = std::pair<std::string_view, size_t>;  ///< a part of an image's path, and its place

  std::vector<size_t> places_of(const std::string& field) const;
  std::optional<size_t> exact_place(const std::string& name) const;
  const std::vector<Name>& short_names() const;

  const std::string& folder_;
  const std::vector<std::string>& images_;
  std::string table_folder_, full_folder_;  ///< absolute
  bool is_outside_;                         ///< the table is not in the folder
  std::vector<int64_t> line_of_;            ///< of each image; 0: not named so far
  mutable std::vector<Name> short_names_;   ///< sorted; made once a name is not an exact path
};

}  // namespace trainer
