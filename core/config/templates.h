// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/config/reading.h"
#include "core/config/value.h"

namespace trainer {

/// If `templates` of a network (a map) names a file, puts the templates of that file in its place.
void include_templates(Value& network, const std::string& path, Diagnostics& diagnostics);

/// Writes out the list `layers` of a network: uses of its `templates`, `repeat`, `when` and `${...}`. The
/// result has layers only, named and connected as the components `known` (their names) are. Problems go to
/// `reading`; layers that have one are left out.
void expand_templates(Value& network, const std::string& path, const std::vector<std::string>& known,
                      Reading& reading);

}  // namespace trainer
