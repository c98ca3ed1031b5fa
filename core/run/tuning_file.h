// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/engine/tuning.h"

namespace trainer {

/// The tuning kept in a run's directory; an empty one if there is none. A file that is not one throws
/// Error (exit 65) naming it.
Tuning load_tuning(const std::filesystem::path& file);
/// As JSON, atomically.
void save_tuning(const Tuning& tuning, const std::filesystem::path& file);

}  // namespace trainer
