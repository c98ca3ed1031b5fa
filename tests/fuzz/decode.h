// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/data/images/image_decoder.h"

namespace trainer {

using MakeDecoder = std::unique_ptr<ImageDecoder> (*)(std::span<const uint8_t> file);

/// Decodes arbitrary bytes: whole, and a window that depends on them. Damage must be a DecodeError, and the
/// result must have the requested size; everything else is a crash.
void fuzz_decode(MakeDecoder make, const uint8_t* data, size_t size);

}  // namespace trainer
