// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trainer {

/// CRC-32 with Castagnoli's polynomial, lowest bit first (RFC 3720), by the processor's instruction if it has
/// one.
uint32_t crc32c(std::span<const std::byte> bytes);

/// The same by a table, on any processor.
uint32_t crc32c_by_table(std::span<const std::byte> bytes);

/// The checksum as TensorFlow's files store it: masked, because a checksum of data that contains its own
/// checksum is meaningless.
uint32_t masked_crc32c(std::span<const std::byte> bytes);

}  // namespace trainer
