// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"

namespace trainer {

/// Whether a pattern matches the name: `*` matches any text, dots included, `?` any character, `[ab]` one of
/// these.
bool matches(const std::string& pattern, const std::string& name);
bool matches_any(const std::vector<std::string>& patterns, const std::string& name);

/// Reports, at `origin`, each pattern that matches no name, with the nearest name. `what` describes the
/// names: "parameter or running statistic".
void check_patterns(const std::vector<std::string>& patterns, const std::vector<std::string>& names,
                    const std::string& what, const Origin& origin, Diagnostics& diagnostics);

}  // namespace trainer
