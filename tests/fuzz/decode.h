// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/data/images/decode.h"

namespace trainer {

using Decode = void (*)(std::span<const uint8_t>, const ViewChooser&, int64_t, Image&);

/// Decodes bytes that may be anything: whole, and a window that depends on them. Damage must be a
/// DecodeError, and what is decoded must have the size asked for; everything else is a crash.
void fuzz_decode(Decode decode, const uint8_t* data, size_t size);

}  // namespace trainer
