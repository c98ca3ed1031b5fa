// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/data/tables/column_values.h"

namespace trainer {

/// The input columns that have one value in all rows: a number wherever one is there, or a text everywhere.
std::vector<std::string> constant_columns(const std::vector<ColumnValues>& columns);

/// Numbers of columns of a table that identify rows, by which a network would learn them by heart:
/// those that count the rows from 0 or 1, and those with a text of its own in more than half of them.
std::vector<size_t> columns_of_row_names(const Table& table);

/// An input column that alone predicts a target.
struct PredictiveColumn {
  std::string column, target;
  /// "value": rows with the same value have the same target. "threshold": each class has an interval of the
  /// numbers. "linear", "monotone": of numbers.
  std::string how;
  double strength = 0;  ///< share of errors or of variance that the column removes
};

/// Least strengths; an ordinary good input has less. That of numbers is a correlation of 0.999.
constexpr double kPredictiveStrength = 0.998, kPredictiveClassStrength = 0.99;
/// Fewer rows agree by chance; of classes, half as many that are not of the most frequent one.
constexpr size_t kLeastPredictiveRows = 20;

/// A column predicts classes if it removes 99 % of the errors of always predicting the most frequent one. By
/// value, a row is right if most other rows with its value have its class: a value that occurs once predicts
/// nothing, and missing is a value. It predicts numbers if, in the rows where it has a value and which
/// are at least half of all, one of these is 0.998: the square of the correlation, that of Spearman's, or the
/// share of the variance which the mean of the other rows with the same value explains. `are_classes`:
/// targets are classes, or columns of 0 and 1. The result does not depend on the threads.
std::vector<PredictiveColumn> predictive_columns(const std::vector<ColumnValues>& columns, bool are_classes,
                                                 int64_t threads);

}  // namespace trainer
