// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/data/row_reader.h"

namespace trainer {

/// The rows of a pass in the stored order, of a random order of all `size` samples in place of it.
std::unique_ptr<RowReader> shuffle_rows(std::unique_ptr<RowReader> rows, uint64_t seed, int64_t size);

}  // namespace trainer
