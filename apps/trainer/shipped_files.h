// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

namespace trainer {

/// The texts in configs/devices/ and configs/machines/ by their names, without the ending.
const std::map<std::string, std::string>& shipped_devices();
const std::map<std::string, std::string>& shipped_machines();

}  // namespace trainer
