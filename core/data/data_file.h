// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/file.h"

namespace trainer {

/// A regular file of samples, opened for reading. Throws Error: exit 78 where it is missing, 65 where
/// something else is there, 74 where the system refuses.
FileDescriptor open_data_file(const std::string& path);

}  // namespace trainer
