// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/data/tables/source.h"

namespace trainer {

/// Properties of the columns of a split's rows, in the order of the file.
struct ColumnStatistics {
  std::string name;
  std::string use;      ///< "number", "category", "target", "class", "group", "time" or "series"
  int64_t missing = 0;  ///< rows
  double least = 0, mean = 0, deviation = 0, median = 0, most = 0;  ///< of numbers that are there
  std::vector<std::pair<std::string, int64_t>> texts;               ///< each with its rows, most first
  std::string first, last;                                          ///< of times
};

std::vector<ColumnStatistics> measure_columns(const TableSource& source);

}  // namespace trainer
