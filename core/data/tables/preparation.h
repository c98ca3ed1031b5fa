// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/data/tables/table.h"

namespace trainer {

/// What the rows of training tell of a table, and all rows are prepared with: statistics of the columns of
/// numbers, categories, and classes. Weights keep it.
struct TablePreparation {
  /// A number x becomes (min(max(x or fill, low), high) - shift) / scale.
  struct Number {
    std::string name;
    double fill = 0;
    double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
    double shift = 0, scale = 1;

    float of(float x) const {
      const double value = x == x ? static_cast<double>(x) : fill;
      return static_cast<float>(((value < low ? low : value > high ? high : value) - shift) / scale);
    }
  };
  /// The text number i becomes i + 1; what is missing, or is none of them, becomes 0.
  struct Category {
    std::string name;
    std::vector<std::string> texts;  ///< ascending
  };
  /// A target t becomes (t - mean) / deviation.
  struct Target {
    std::string name;
    double mean = 0, deviation = 1;
  };

  std::vector<Number> numbers;
  std::vector<Category> categories;
  std::vector<Target> targets;
  std::string text;                  ///< the column that is read as tokens, or empty
  std::string label;                 ///< the column of classes, or empty
  std::vector<std::string> classes;  ///< numbers in their order, or else texts
  bool refuses_missing = false;      ///< of numbers, by data.table.missing: error
  std::optional<TimeStep> step;      ///< from row to row of a window; none if samples are rows

  /// Rows of an embedding of all categories.
  int64_t category_rows() const;
};

/// Of these rows of a table.
TablePreparation prepare_table(const Table& table, std::span<const int64_t> rows, const TableRequest& request,
                               int64_t threads);

/// As JSON, and from it; nothing if it is another text.
std::string to_json(const TablePreparation& preparation);
std::optional<TablePreparation> parse_preparation(std::string_view text);

}  // namespace trainer
