// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/trainer/arguments.h"

namespace trainer {

/// trainer plan --devices: one line for each device that the arguments name: its speed, and time, energy and
/// cost of the whole run. GPUs are planned from their descriptions. Throws Error as a plan for a device alone
/// would, and for wrong prices and measurements (exit 64 and 65).
void print_device_table(const Arguments& arguments);

}  // namespace trainer
