// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace trainer {

/// What a file is by its first bytes, and the remedy, if it is compressed, an archive of ZIP, Parquet or PDF:
/// "compressed data; unpack it with gunzip". Empty for anything else.
std::string foreign_content(std::span<const std::byte> bytes);

}  // namespace trainer
