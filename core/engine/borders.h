// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/engine/plan.h"

namespace trainer {

/// The messages of a plan along Axis::pipeline in the order in which they are begun, a line each: "send 1: 3
/// f32 (2, 24)" for one to position 1 with number 3, or "receive …" for one from there.
std::string messages_of(const Plan& plan);

/// What two ranks along a pipeline disagree on, given the messages of each position: one sends what the other
/// does not receive so. Nothing if all agree.
std::optional<std::string> border_difference(const std::vector<std::string>& messages);

}  // namespace trainer
