// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstring>
#include <vector>

#include "core/data/images/tar.h"
#include "core/data/images/webdataset.h"
#include "tests/fuzz/shard_bytes.h"

namespace trainer {
namespace {

/// Corrects the checksum of each block that may be a header, which a mutation hardly ever hits.
void seal_headers(std::vector<uint8_t>& archive) {
  constexpr size_t kBlock = kTarBlock, kSumAt = 148, kSumBytes = 8, kMagicAt = 257;
  for (size_t at = 0; at + kBlock <= archive.size(); at += kBlock) {
    uint8_t* header = archive.data() + at;
    if (std::memcmp(header + kMagicAt, "ustar", 5) != 0) continue;
    std::memset(header + kSumAt, ' ', kSumBytes);
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += header[i];
    std::snprintf(reinterpret_cast<char*>(header + kSumAt), kSumBytes, "%06o", sum);
  }
}

}  // namespace
}  // namespace trainer

/// Each archive unchanged, and with corrected checksums.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto layout = trainer::webdataset_layout("label");
  std::vector<uint8_t> archive(data, data + size);
  trainer::read_shard(*layout, archive);
  trainer::seal_headers(archive);
  trainer::read_shard(*layout, archive);
  return 0;
}
