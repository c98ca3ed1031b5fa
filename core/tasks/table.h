// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/tasks/task.h"

/// The table of tasks: one line for each, a function in its own file.
// clang-format off
#define TRAINER_TASKS(row) \
  row(classification_task) \
  row(language_modeling_task) \
  row(multi_label_task) \
  row(pixel_classification_task) \
  row(reconstruction_task) \
  row(regression_task)
// clang-format on

namespace trainer {

#define TRAINER_DECLARE_ROW(function) std::unique_ptr<Task> function();
TRAINER_TASKS(TRAINER_DECLARE_ROW)
#undef TRAINER_DECLARE_ROW

}  // namespace trainer
