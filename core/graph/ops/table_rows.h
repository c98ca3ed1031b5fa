// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/host_device.h"

namespace trainer {

/// The row of a table that each token of (N, T) reads: that of its id or, without ids, of its position in its
/// document.
struct TableRows {
  const int32_t* ids = nullptr;    ///< (N, T)
  const int32_t* first = nullptr;  ///< (1), position of the first token of each sequence; null: 0
  const int32_t* start = nullptr;  ///< (N, T), where each token's document begins; null: 0
  int64_t length = 1;              ///< T

  /// `token` counts through (N, T).
  TRAINER_HD int64_t operator()(int64_t token) const {
    if (ids != nullptr) return ids[token];
    const int64_t position = (first == nullptr ? 0 : *first) + token % length;
    return start == nullptr ? position : position - start[token];
  }
};

}  // namespace trainer
