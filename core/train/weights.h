// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/engine/executable.h"

namespace trainer {

/// Writes every parameter in its canonical layout, under its name.
void save_weights(const Executable& executable, const std::filesystem::path& path);

/// Gives every parameter the value that the file has under its name. Throws Error (exit 65) naming whatever
/// is missing, does not fit or is left over; nothing is changed then.
void load_weights(Executable& executable, const std::filesystem::path& path);

}  // namespace trainer
