// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/json.h"
#include "core/data/tables/statistics.h"

namespace trainer {

/// The columns of a table's rows, a line each; `name` is the split's.
std::string column_text(const std::string& name, const TableSource& source);
/// The same as {rows, columns}.
Json column_json(const TableSource& source);

}  // namespace trainer
