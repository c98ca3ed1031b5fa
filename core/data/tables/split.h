// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/data/subset.h"
#include "core/data/tables/columns.h"
#include "core/data/tables/preparation.h"
#include "core/data/tables/source.h"
#include "core/data/tables/table.h"

namespace trainer {

/// The rows of a split, ascending; all without a fraction and folds. Classes take their shares. Of series
/// validation has the end of each, without folds. Throws Error (exit 65) if a split of rows would be empty.
std::vector<int64_t> split_rows_of(const Table& table, const TableRequest& wanted, const SplitChoice& choice);

/// The same rows as samples or, of series, their windows. Throws Error (exit 65) if there are no windows, or
/// if the preparation is of other times.
TableSamples split_samples(const Table& table, const TableRequest& wanted,
                           const TablePreparation& preparation, const SplitChoice& choice);

/// All rows or windows, without targets.
TableSamples named_samples(const Table& table, const TableRequest& wanted,
                           const TablePreparation& preparation);

}  // namespace trainer
