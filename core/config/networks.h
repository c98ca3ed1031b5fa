// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/config/value.h"

namespace trainer {

/// Whether a text names a network that is shipped with the program, such as `resnet18`, rather than a file.
bool is_network_name(const std::string& text);

/// Reads the network file `named`: a shipped one by its name, or a path. If it cannot be found or read, the
/// error is at `where`, and the value is `reported`.
Value load_network(const Value& named, const Location& where, Diagnostics& diagnostics);

}  // namespace trainer
