// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/json.h"
#include "core/config/value.h"

namespace trainer {

/// A value of a recipe in JSON.
Json to_json(const Value& value);

}  // namespace trainer
