// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/data/tables/keys.h"
#include "core/data/tables/table.h"
#include "core/data/tables/time.h"

namespace trainer {

/// Rows [begin, end) of one series.
struct SeriesPart {
  int64_t begin = 0, end = 0;
};

/// The rows of each series before the last `fraction` of them, or these.
std::vector<SeriesPart> before_the_end(const Table& table, double fraction);
std::vector<SeriesPart> at_the_end(const Table& table, double fraction);
std::vector<int64_t> rows_in(const std::vector<SeriesPart>& parts);

/// Windows of rows that are one step apart in time, in the order of the table's rows.
struct Windows {
  int64_t length = 1;          ///< rows that the network reads
  int64_t horizon = 0;         ///< rows from the last of these to the target's; 0: there is no target
  TimeStep step;               ///< from row to row
  std::vector<int64_t> first;  ///< the first row of each
  int64_t across_gaps =
      0;  ///< windows left out: from a row to the next, the target's included, is another step
  int64_t without_target = 0;  ///< other windows left out

  /// ", 60 across gaps in time and 3 without a target left out", or empty.
  std::string left_out_text() const;
};

/// All windows within these parts. `with_targets`: the recipe's; otherwise one up to each row, without a
/// target.
Windows find_windows(const Table& table, const WindowKeys& keys, const TimeStep& step,
                     const std::vector<SeriesPart>& parts, bool with_targets);

}  // namespace trainer
