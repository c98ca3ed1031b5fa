// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/config/value.h"

namespace trainer {

/// The value at "a.b" below `root`, and the key's place; nullptr if there is none.
const Value::Entry* find_path(const Value& root, const std::string& path);

/// The value of a key of `root`, to be changed; nullptr if there is none.
Value* find_section(Value& root, const std::string& key);

}  // namespace trainer
