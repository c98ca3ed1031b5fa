// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/recipe/starter.h"

namespace trainer {

// Parts of first recipes.

/// The share of the training samples that is set aside where nothing else is for validation.
constexpr double kStarterValFraction = 0.2;
/// Number of steps in which a small network learns something from little data.
constexpr int64_t kStarterSteps = 1500;

/// One line `key: value`, the value in quotes if YAML needs them.
std::string yaml_line(const std::string& key, const std::string& text);
/// The last transform of a list, with the training samples' statistics, for a network of so many channels.
std::string normalize_line(const Starter& starter, int64_t channels);
/// The line that says where validation samples come from.
std::string validation_line(const Starter& starter);

/// How long to train on so many samples, some of which are set aside unless there are others (`has_val`).
struct StarterLength {
  StarterLength(int64_t samples, bool has_val, int64_t most_at_once);
  int64_t training, batch, epochs, interval;
};

/// The recipe for images with masks.
std::string mask_starter_recipe(const Starter& starter);

}  // namespace trainer
