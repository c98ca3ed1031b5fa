// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/trainer/arguments.h"

namespace trainer {

/// trainer plan --ranks: one line for each number of ranks, or with --splits for each way to divide them.
/// Throws Error as Scaling does, and for numbers that are none (exit 64).
void print_scaling_table(const Arguments& arguments);

}  // namespace trainer
