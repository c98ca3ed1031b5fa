// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/data/images/source.h"

namespace trainer {

/// Writes all samples of a source as one record file, front to end. Image files are copied unchanged,
/// unreadable ones as empty files; other samples as pixels. `transforms` are those that the images have had.
/// Threads read ahead.
void write_record(const ImageSource& source, const std::function<void(std::span<const std::byte>)>& sink,
                  const std::vector<std::string>& transforms = {}, int64_t threads = 1);

/// A memory-mapped record file: its samples are bitwise identical to the source's. A truncated, altered or
/// foreign file throws Error (exit 65) with file and offset, an altered sample when it is read.
std::unique_ptr<ImageSource> open_record(const std::string& path, int64_t max_pixels);

/// Reads the index, and the transforms that the images have had.
SourceInfo peek_record(const std::string& path, std::vector<std::string>* transforms = nullptr);

}  // namespace trainer
