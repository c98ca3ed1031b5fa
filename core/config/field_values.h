// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/config/field.h"
#include "core/config/reading.h"
#include "core/config/value.h"

namespace trainer {

/// Reads `value` into the field's target and checks its bounds; a problem leaves the target as it was. Errors
/// about the whole value are reported at `origin`, those about one item of a list at the item.
void read_value(const Field& field, const Value& value, const Origin& origin, Reading& reading);

/// The target's value in canonical form, without a place.
Value current_value(const Field& field);

}  // namespace trainer
