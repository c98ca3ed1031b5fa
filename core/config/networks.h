// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/config/value.h"

namespace trainer {

/// Whether a text stands for a network that comes with the program, as `resnet18` does, and not for a file.
bool is_network_name(const std::string& text);

/// Reads the file of a network that `named` gives: a shipped one by its name, or a path. A name that cannot
/// be found or read is an error at `where`, and `reported`.
Value load_network(const Value& named, const Location& where, Diagnostics& diagnostics);

}  // namespace trainer
