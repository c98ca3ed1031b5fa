// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/engine/machine_description.h"

namespace trainer {

/// The description of a machine, by its name in configs/machines/ or from a file with the ending ".json".
/// Throws Error (exit 78) for an unknown name, and if the file is no description.
MachineDescription find_machine(const std::string& name);

/// The first described machine with this device; nothing if there is none.
std::optional<MachineDescription> machine_with(const std::string& device);

}  // namespace trainer
