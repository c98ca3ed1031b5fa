// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/data/source.h"
#include "core/data/tables/preparation.h"
#include "core/data/tables/row_names.h"
#include "core/data/tables/table.h"

namespace trainer {

/// Rows of a table, prepared.
class TableSource : public DataSource {
 public:
  virtual const Table& table() const = 0;
  /// The names of the table's rows, by row_of().
  virtual const RowNames& row_names() const = 0;
  virtual int64_t row_of(int64_t sample) const = 0;
  virtual const TablePreparation& how() const = 0;
  virtual int32_t label(int64_t sample) const = 0;
  /// The text of a row in the column of NamedFiles::id; empty without one.
  virtual std::string id(int64_t sample) const = 0;
};

/// These rows of a table, or all; fills the inputs `features`, `categories`, `labels` and `targets`.
/// `excluded`: rows that data.exclude leaves out; they are part of the fingerprint. Throws Error (exit 65)
/// for a class that the preparation does not have.
std::unique_ptr<TableSource> table_rows(std::shared_ptr<const Table> table,
                                        std::shared_ptr<const TablePreparation> preparation,
                                        std::vector<int64_t> rows, std::vector<int64_t> excluded = {});

/// Of the targets of such rows; nothing if they are no numbers. `squares` is the mean over the targets.
std::optional<TargetSpread> target_spread(const Table& table, const TablePreparation& preparation,
                                          const std::vector<int64_t>& rows);

}  // namespace trainer
