// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/program.h"

namespace trainer {

/// The number (1) that is not 0 where the optimiser's step in this entry is skipped; kNone where it never is.
TensorId skip_of(const Entry& entry);

}  // namespace trainer
