// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/config/value.h"

namespace trainer {

/// Reports text that cannot be a part of a directory's name, or would lead to another directory.
void check_is_name(const std::string& text, const Origin& origin, Diagnostics& diagnostics);

}  // namespace trainer
