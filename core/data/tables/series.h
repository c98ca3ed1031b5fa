// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/data/tables/table.h"

namespace trainer {

/// Puts the rows of a table with times in the order of their series, by text, and their times. With
/// data.table.missing: previous, a missing number becomes the one before in its series; one at the beginning
/// stays missing, and targets do. Throws Error (exit 65) at a row whose series has a row with the same time.
void order_by_time(Table& table, const TableRequest& request);

}  // namespace trainer
