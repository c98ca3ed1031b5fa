// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/config/value.h"

namespace trainer {

/// Turns line and column of a text into a place for messages.
using Placing = std::function<Location(int line, int column)>;

/// Parses one document at the path `path`; nullopt if it is empty. After a syntax error the value is
/// null and `reported`.
std::optional<Value> parse_document(const std::string& text, const Placing& place, const std::string& path,
                                    Diagnostics& diagnostics);

}  // namespace trainer
