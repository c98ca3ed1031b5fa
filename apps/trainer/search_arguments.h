// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/trainer/arguments.h"

namespace trainer {

// The commands that search for settings of a recipe.

void add_tune_commands(CLI::App& app, Arguments& arguments);

void add_sweep_command(CLI::App& app, Arguments& arguments);

/// After parsing of `tune`. Throws Error (exit 64) for rates that do not rise.
void finish_tune(const CLI::App& tune, Arguments& arguments);

}  // namespace trainer
