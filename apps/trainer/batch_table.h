// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tune/step_speed.h"

namespace trainer {

/// A measurement as one line of JSON, and back; nothing for another text.
std::string to_line(const StepSpeed& speed);
std::optional<StepSpeed> parse_speed(std::string_view line);

/// A table of measured micro-batches. With several, also the one to use, as an override. `too_large`: those
/// whose plan does not fit into memory.
std::string speeds_text(const std::vector<StepSpeed>& speeds, const std::vector<int64_t>& too_large);
/// The same as JSON.
std::string speeds_json(const std::vector<StepSpeed>& speeds, const std::vector<int64_t>& too_large);

}  // namespace trainer
