// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trainer {

/// XXH3 of 64 bits: against accidents, not against attackers.
uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace trainer
