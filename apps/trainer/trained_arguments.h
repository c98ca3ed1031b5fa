// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/trainer/arguments.h"

namespace trainer {

// The commands that use a trained network. Each takes a run's directory, or a recipe with --config.

void add_eval_command(CLI::App& app, Arguments& arguments);
void add_predict_command(CLI::App& app, Arguments& arguments);
void add_generate_command(CLI::App& app, Arguments& arguments);
void add_export_command(CLI::App& app, Arguments& arguments);
void add_quantize_command(CLI::App& app, Arguments& arguments);
void add_prune_command(CLI::App& app, Arguments& arguments);

/// After parsing, for eval, generate, export, prune and quantize: sorts the words into the run and overrides.
/// Throws Error (exit 64) if there is neither a run nor a recipe. Other words become overrides, which the
/// recipe refuses.
void finish_without_inputs(const CLI::App& command, Arguments& arguments);
void finish_quantize(const CLI::App& command, Arguments& arguments);
/// The same for predict, whose other words are images. Sets the split that it has without an option.
void finish_predict(const CLI::App& predict, Arguments& arguments);

}  // namespace trainer
