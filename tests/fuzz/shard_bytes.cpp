// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/shard_bytes.h"

#include <cstdlib>
#include <string>

#include "core/base/error.h"
#include "core/data/images/decode.h"

namespace trainer {

void read_shard(const ShardLayout& layout, std::span<const uint8_t> bytes) {
  const std::string path = "shard";
  const ShardBytes shard{path, std::as_bytes(bytes)};
  try {
    int64_t last = -1;
    for (const ShardSample& sample : layout.find_samples(shard)) {
      if (sample.start <= last || sample.label < kNoShardLabel) std::abort();
      last = sample.start;
      try {
        const auto image = layout.image_of(shard, sample);
        if (image.data() < shard.bytes.data() + sample.start ||
            image.data() + image.size() > shard.bytes.data() + shard.bytes.size())
          std::abort();
      } catch (const DecodeError&) {
      }
      if (layout.name_of(shard, sample).empty()) std::abort();
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) std::abort();
  }
}

}  // namespace trainer
