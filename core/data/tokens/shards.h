// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "core/data/tokens/stream.h"

namespace trainer {

/// A shard's header counts in 31 bits.
constexpr int64_t kMostShardTokens = 2147483647;

/// Writes the tokens [begin, end) of a stream as a shard with llm.c's header, in pieces: numbers of 2 bytes
/// if the vocabulary fits, else of 4. `open_token_shards` reads it back. Throws Error (exit 65) at a token
/// that is not below `vocabulary`.
void write_shard(const TokenStream& stream, int64_t begin, int64_t end, int64_t vocabulary,
                 const std::function<void(std::span<const std::byte>)>& sink);

/// The header of a shard: 256 numbers (https://github.com/karpathy/llm.c, dev/data/data_common.py).
struct ShardHeader {
  int32_t magic, version;
  int64_t width;  ///< bytes of a token
};
constexpr size_t kShardHeaderNumbers = 256;
constexpr ShardHeader kNarrowShard = {20240520, 1, 2}, kWideShard = {20240801, 7, 4};

}  // namespace trainer
