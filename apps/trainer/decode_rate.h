// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/trainer/arguments.h"

namespace trainer {

/// trainer data stats --time: measures how many training samples one core makes in a second, and prints it.
/// Throws Error as the start of a run does.
void print_decode_rate(const Arguments& arguments);

}  // namespace trainer
