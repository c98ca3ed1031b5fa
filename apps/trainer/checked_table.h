// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "apps/trainer/check_list.h"
#include "core/recipe/run_spec.h"

namespace trainer {

/// Equal rows of both splits, rows with equal inputs and another target, and columns of training that are
/// constant, tell rows apart or alone tell the target. `id`: the column that names rows, or empty. Throws
/// Error as opening data does, and exit 64 if there is no such column.
CheckedData check_table(const std::shared_ptr<const Recipe>& recipe, const std::string& id);

}  // namespace trainer
