// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "core/import/foreign_weights.h"

namespace trainer {

/// The initializers of an ONNX model (onnx/onnx.proto). The file, of at most 2 GiB, is held in memory. Throws
/// Error (exit 65) for data in other files, texts and types that safetensors files cannot have.
std::unique_ptr<ForeignWeights> open_onnx_file(const std::filesystem::path& path);

}  // namespace trainer
