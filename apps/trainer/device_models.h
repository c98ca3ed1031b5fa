// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/error.h"
#include "core/config/file_path.h"
#include "core/engine/device_description.h"

namespace trainer {

/// The GPU that is planned for where there is none.
constexpr const char* kDefaultModel = "h200";

/// The description of a GPU by name, one of those in configs/devices/, or from a file, a name that ends in
/// ".json". Throws Error: at `origin` where there is none of that name, exit 65 where the file is no
/// description.
DeviceDescription find_device(const FilePath& model, const Origin& origin);

}  // namespace trainer
