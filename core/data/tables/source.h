// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/data/source.h"
#include "core/data/tables/preparation.h"
#include "core/data/tables/row_names.h"
#include "core/data/tables/row_tokens.h"
#include "core/data/tables/table.h"
#include "core/data/tables/window.h"

namespace trainer {

/// The samples of a split of a table.
struct TableSamples {
  std::vector<int64_t> rows;                          ///< of the split, ascending; each is a sample, or
  std::optional<Windows> windows = std::nullopt;      ///< these are
  std::shared_ptr<const RowTokens> tokens = nullptr;  ///< of all rows of the table, if the network reads text
  int64_t length = 0;                                 ///< of a text, in tokens
  std::vector<int64_t> excluded = {};  ///< that data.exclude leaves out; part of the fingerprint

  int64_t size() const { return static_cast<int64_t>(windows ? windows->first.size() : rows.size()); }
  /// The rows that the network reads are [first_row, last_row].
  int64_t first_row(int64_t sample) const {
    return windows ? windows->first[static_cast<size_t>(sample)] : rows[static_cast<size_t>(sample)];
  }
  int64_t last_row(int64_t sample) const { return first_row(sample) + (windows ? windows->length - 1 : 0); }
  int64_t target_row(int64_t sample) const { return last_row(sample) + (windows ? windows->horizon : 0); }
};

/// Rows of a table, or windows of them, prepared.
class TableSource : public DataSource {
 public:
  virtual const Table& table() const = 0;
  /// The names of the table's rows.
  virtual const RowNames& row_names() const = 0;
  virtual const TableSamples& samples() const = 0;
  virtual const TablePreparation& how() const = 0;
  virtual int32_t label(int64_t sample) const = 0;
  /// Names of a sample, and their texts: "id" in the column of NamedFiles::id; of a window the "time" of its
  /// last row and "by", its series, if there are several.
  virtual std::vector<std::pair<std::string, std::string>> names(int64_t sample) const = 0;
};

/// Samples of a table; fills the inputs `tokens`, `document_start` and `token_weights`, or `features`,
/// `categories` (those of a window's last row), `labels` and `targets`. Throws Error (exit 65) for a class
/// that the preparation does not have.
std::unique_ptr<TableSource> table_source(std::shared_ptr<const Table> table,
                                          std::shared_ptr<const TablePreparation> preparation,
                                          TableSamples samples);

/// Of the targets of such samples; nothing if they are no numbers. `squares` is the mean over the targets.
std::optional<TargetSpread> target_spread(const TableSource& source);

}  // namespace trainer
