// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/config/value.h"

namespace trainer {

/// Text fit for one line of a message: no control characters, at most some 60 bytes.
std::string shown(const std::string& text);

/// A scalar's text for a message; unexpanded if it is written with `${env:NAME}`.
std::string shown_text(const Value& value);

/// The kind of the value that was found, for a message: "a map", "a list", "nothing", "'text'".
std::string describe(const Value& value);

/// "a, b, c".
std::string listed(const std::vector<std::string>& names);

/// `map_path.key`, or just the key at the top level.
std::string join_path(const std::string& map_path, const std::string& key);

/// "; did you mean 'relu'?" if a candidate is near, else "; known: relu, gelu".
std::string suggestion(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace trainer
