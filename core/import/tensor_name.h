// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "core/storage/safetensors.h"

namespace trainer {

/// Whether a safetensors file can have a tensor of this name.
bool is_tensor_name(std::string_view name);

/// Throws Error (exit 65), naming `path`, if two tensors have one name.
void require_different_names(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors);

}  // namespace trainer
