// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/config/file_path.h"
#include "core/engine/device_description.h"

namespace trainer {

/// The GPU that is planned for if none is present.
constexpr const char* kDefaultModel = "h200";

/// The names of the GPUs in configs/devices/.
std::vector<std::string> device_names();

/// The name in configs/devices/ of a GPU that calls itself so, "NVIDIA H200"; nothing if none does.
std::optional<std::string> described_as(const std::string& gpu);

/// The description of a GPU, by its name in configs/devices/ or from a file with the ending ".json".
/// Throws Error: at `origin` for an unknown name, exit 65 if the file is not a description.
DeviceDescription find_device(const FilePath& model, const Origin& origin);

}  // namespace trainer
