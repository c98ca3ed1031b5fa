// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/trainer/arguments.h"

namespace trainer {

/// The command that writes a job script.
void add_slurm_command(CLI::App& app, Arguments& arguments);

}  // namespace trainer
