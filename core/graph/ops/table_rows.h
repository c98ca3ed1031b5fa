// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/host_device.h"

namespace trainer {

/// A tensor's row that another rank has.
constexpr int64_t kElsewhere = -1;

/// The row of a table that each token of (N, T) reads: that of its id or, without ids, of its position in its
/// document.
struct TableRows {
  const int32_t* ids = nullptr;    ///< (N, T)
  const int32_t* first = nullptr;  ///< (1), position of the first token of each sequence; null: 0
  const int32_t* start = nullptr;  ///< (N, T), where each token's document begins; null: 0
  int64_t length = 1;              ///< T
  /// With ids: the table's first row and number of rows, if other ranks have further ones; 0: it has all.
  int64_t begin = 0, rows = 0;

  /// `token` counts through (N, T). kElsewhere only if other ranks have rows.
  TRAINER_HD int64_t operator()(int64_t token) const {
    if (ids != nullptr) {
      const int64_t row = ids[token] - begin;
      return rows == 0 || (row >= 0 && row < rows) ? row : kElsewhere;
    }
    const int64_t position = (first == nullptr ? 0 : *first) + token % length;
    return start == nullptr ? position : position - start[token];
  }
};

}  // namespace trainer
