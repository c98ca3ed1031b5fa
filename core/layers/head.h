// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/config/reading.h"
#include "core/config/value.h"

namespace trainer {

/// Applies `num_classes` of a network (a map whose templates are written out): its last layer with a width of
/// its own, the head, gives that many outputs. Anything but a whole number from 1 on is left to the readers
/// of the keys.
void set_num_classes(Value& network, const std::string& path, Reading& reading);

}  // namespace trainer
