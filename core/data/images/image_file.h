// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer {

/// Reads a whole file into `bytes` and keeps their memory. Throws DecodeError if this file is at fault
/// (gone, not allowed, no file, larger than any image), Error (exit 74) if the system is.
void read_image_file(const std::string& path, std::vector<uint8_t>& bytes);

}  // namespace trainer
