// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/dtype.h"

namespace trainer::reference {

/// The nearest number that a tensor of this type (bf16 or f16) can hold, ties to even; too large ones become
/// infinite.
double rounded(double value, DType dtype);

}  // namespace trainer::reference
