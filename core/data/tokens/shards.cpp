// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokens/shards.h"

#include <algorithm>
#include <array>
#include <vector>

namespace trainer {

void write_shard(const TokenStream& stream, int64_t begin, int64_t end, int64_t vocabulary,
                 const std::function<void(std::span<const std::byte>)>& sink) {
  constexpr int64_t kAtOnce = 1 << 20;
  const bool is_narrow = vocabulary <= 65536;
  const ShardHeader& kind = is_narrow ? kNarrowShard : kWideShard;
  std::array<int32_t, kShardHeaderNumbers> header{};
  header[0] = kind.magic, header[1] = kind.version, header[2] = static_cast<int32_t>(end - begin);
  sink(std::as_bytes(std::span(header)));
  std::vector<int32_t> tokens;
  for (int64_t at = begin; at < end; at += kAtOnce) {
    tokens.resize(static_cast<size_t>(std::min(kAtOnce, end - at)));
    stream.read(at, vocabulary, tokens);
    if (is_narrow) {
      const std::vector<uint16_t> narrow(tokens.begin(), tokens.end());
      sink(std::as_bytes(std::span(narrow)));
    } else {
      sink(std::as_bytes(std::span(tokens)));  // those below 2^31 are the same without a sign
    }
  }
}

}  // namespace trainer
