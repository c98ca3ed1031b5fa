// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/trainer/arguments.h"

namespace trainer {

/// trainer plan --devices: one line for each GPU that the arguments name, planned from its description.
/// Throws Error as a plan for that GPU alone would.
void print_device_table(const Arguments& arguments);

}  // namespace trainer
