// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer {

/// The whole of a file into `bytes`, whose memory is kept. Throws DecodeError where this file is at fault
/// (gone, not allowed, no file, larger than any image), Error (exit 74) where the system is.
void read_image_file(const std::string& path, std::vector<uint8_t>& bytes);

}  // namespace trainer
