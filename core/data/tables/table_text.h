// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/mapped_file.h"

namespace trainer {

/// The text of a file of a table: mapped or, if it is gzip, unpacked. Throws Error as MappedFile does, 65 for
/// a file that is no text.
class TableText {
 public:
  explicit TableText(const std::string& path);
  std::string_view text() const { return text_; }
  /// See MappedFile.
  void require_intact() const;

 private:
  std::unique_ptr<MappedFile> file_;
  std::string unpacked_;
  std::string_view text_;
};

/// A part of a table's text, from the beginning of a record to the end of another.
struct TablePart {
  std::string_view text;
  int64_t line = 1;     ///< of its beginning
  int64_t records = 0;  ///< at most: its lines
};

/// Smaller parts cost more than they spread.
constexpr size_t kLeastTablePart = size_t{1} << 20;

/// The text after its header in parts of about this many bytes or more, for several threads. Quoted fields
/// with line breaks stay whole.
std::vector<TablePart> divide_table(std::string_view text, int64_t threads, size_t least = kLeastTablePart);

}  // namespace trainer
