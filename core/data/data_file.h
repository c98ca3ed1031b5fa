// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/file.h"

namespace trainer {

/// A regular file of samples, opened for reading. Throws Error: exit 78 if it is missing, 65 if
/// something else is there, 74 if the system refuses.
FileDescriptor open_data_file(const std::string& path);

}  // namespace trainer
