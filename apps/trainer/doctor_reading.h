// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/recipe/reading_speed.h"

namespace trainer {

/// `trainer doctor --read`: rows of a name and its value. What is absent, or could not be read, is named.
std::vector<std::pair<std::string, std::string>> reading_rows(const ReadingSpeed& speed);

/// The same as numbers; null for a speed without a measurement.
Json reading_json(const ReadingSpeed& speed);

}  // namespace trainer
