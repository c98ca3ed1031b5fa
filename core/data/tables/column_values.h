// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/data/tables/source.h"

namespace trainer {

/// A column of the rows of one or several tables, one after another, as places among its different values.
struct ColumnValues {
  enum class Role { input, target, group };

  std::string name;
  Role role = Role::input;
  bool is_number = false;
  std::vector<int32_t> codes;      ///< of each row, a place in `numbers` or `words`; Table::kNoCode: missing
  std::vector<float> numbers;      ///< the different ones, ascending
  std::vector<std::string> words;  ///< the same of a column of categories, or of classes

  size_t rows() const { return codes.size(); }
  size_t different() const { return is_number ? numbers.size() : words.size(); }
};

/// The columns that are read of these rows, in the order of the first table's. All have the same columns.
std::vector<ColumnValues> column_values(std::span<const TableSource* const> parts);

/// The numbers of the rows with equal values in these columns, each group's ascending, in the order of their
/// first; what is missing equals what is missing. Without columns there is none.
std::vector<std::vector<size_t>> equal_rows(const std::vector<const ColumnValues*>& columns);

}  // namespace trainer
