// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "core/data/images/shard.h"

namespace trainer {

/// Finds the samples of a shard, and takes each one's image file and name. The shard may be refused as data
/// (exit 65), and an image as damaged; anything else ends the process, as does an image outside of the shard.
void read_shard(const ShardLayout& layout, std::span<const uint8_t> bytes);

}  // namespace trainer
