// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/storage/safetensors.h"

namespace trainer {

/// The limit of the reference implementation, so that a corrupt length cannot request all of the memory.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

/// The header's JSON, padded so that the data after it and the 8 bytes before it starts at a multiple of 8;
/// sets begin and end of each tensor. Throws Error (exit 70) for two tensors of one name and for an unknown
/// dtype.
std::string compose_header(std::vector<StoredTensor>& tensors, const StoredMetadata& metadata);

/// The contents of a header, with its tensors in the order of their data and checked: known dtypes, sizes
/// that fit the shapes, no hole, no overlap, `data_bytes` in all. Throws Error (exit 65); `file` is for its
/// text.
std::vector<StoredTensor> parse_header(std::string_view text, int64_t data_bytes, const std::string& file,
                                       StoredMetadata& metadata);

}  // namespace trainer
