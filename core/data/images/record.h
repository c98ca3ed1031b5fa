// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/data/images/source.h"

namespace trainer {

/// Writes all samples of a source as one record file, front to end. Image files are copied unchanged,
/// unreadable ones as empty files; other samples as pixels.
void write_record(const ImageSource& source, const std::function<void(std::span<const std::byte>)>& sink);

/// A memory-mapped record file: its samples are bitwise identical to the source's. A truncated, altered or
/// foreign file throws Error (exit 65) with file and offset, an altered sample when it is read.
std::unique_ptr<ImageSource> open_record(const std::string& path, int64_t max_pixels);

/// Reads the index.
SourceInfo peek_record(const std::string& path);

}  // namespace trainer
