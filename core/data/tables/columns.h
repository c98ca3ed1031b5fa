// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/fields.h"
#include "core/data/tables/keys.h"
#include "core/data/tables/time.h"

namespace trainer {

/// Kind of a table's targets: none, numbers, the texts of one column as classes, or columns of 0 and 1.
enum class TargetUse { none, numbers, classes, label_sets };

struct TablePreparation;

/// What the recipe wants of a table.
struct TableRequest {
  TableKeys keys;
  std::string split_by;  ///< a column of groups, or empty
  std::string id = "";   ///< a column whose texts name the rows, or empty
  TargetUse targets = TargetUse::none;
  std::shared_ptr<const TablePreparation> trained = nullptr;  ///< that says which columns the network reads
  std::function<Origin(const std::string& key)> origin_of;    ///< of a key, such as data.table.target

  /// Whether both read the same of the same files.
  bool reads_as(const TableRequest& other) const;
};

/// What each column of a table is read as.
struct TableColumns {
  enum class Use { nothing, number, code, time };
  struct Column {
    std::string name;
    Use use = Use::nothing;
    size_t place = 0;  ///< among the numbers, or the codes, of a row
  };
  std::vector<Column> all;  ///< in the order of the file
  char separator = ',';

  std::vector<size_t> numbers, categories;  ///< columns of `all` that the network reads
  /// Columns of numbers. Target i of a row comes after its `numbers`, at target_place(i); with windows the
  /// column is one of `numbers` too.
  std::vector<size_t> targets;
  std::optional<size_t> label;  ///< a column of codes, after those of `categories`
  std::optional<size_t> group;  ///< a column of codes, after the label's
  std::optional<size_t> time;   ///< a column of times, if samples are windows
  TimeForm time_form = TimeForm::number;
  std::vector<size_t> series;  ///< columns of codes that name a row's series
  size_t series_codes = 0;     ///< those that are no categories; their codes come last
  std::optional<size_t> text;  ///< a column whose texts the network reads; it then reads no other
  std::optional<size_t> id;    ///< a column of `all` whose texts are kept, whatever its use

  size_t row_numbers() const { return numbers.size() + targets.size(); }
  size_t row_codes() const { return categories.size() + (label ? 1 : 0) + (group ? 1 : 0) + series_codes; }
  size_t target_place(size_t target) const { return numbers.size() + target; }
  std::vector<std::string> names(const std::vector<size_t>& columns) const;
};

/// The columns of a table, by its header and first rows. Throws Error: exit 65 with the place if these cannot
/// be read, 78 at the key that names a column which is missing, twice there or of the wrong kind.
TableColumns find_table_columns(std::string_view text, const std::string& file, const TableRequest& request);

}  // namespace trainer
