// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "core/graph/program.h"

namespace trainer {

/// A copy of an entry under another name, with its own tensors for the values that it defines. `renamed` says
/// which other tensors it reads in place of the original's.
Entry copy_entry(Program& program, const Entry& entry, const std::string& name,
                 std::map<TensorId, TensorId> renamed = {});

}  // namespace trainer
