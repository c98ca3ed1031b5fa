// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "core/engine/executable.h"
#include "core/recipe/run_spec.h"

namespace trainer {

// The teacher of a loss that distils: a trained network whose prediction is a part of the training step.
// Evaluation and prediction of the student do without it.

/// The prediction of its network for the samples of a micro-batch. Throws Error (exit 78) if its recipe
/// cannot be read, or scales images otherwise than this recipe.
std::shared_ptr<const Program> teacher_program(const RunSpec& run);

/// Gives its tensors their values. Returns what to log. Throws Error (exit 65) if the file of its weights
/// does not fit.
std::string load_teacher(const RunSpec& run, Executable& executable);

/// Identifies the content of that file, and the network; empty without a teacher. Throws Error: exit 65 if
/// there is no such file, 74 if it cannot be read.
std::string teacher_checksum(const Recipe& recipe);

}  // namespace trainer
