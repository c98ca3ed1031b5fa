// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/tfrecord.h"

#include <cstring>
#include <vector>

#include "core/base/crc32c.h"
#include "tests/fuzz/shard_bytes.h"

namespace trainer {
namespace {

/// Corrects the checksums, which a mutation hardly ever hits.
void seal_records(std::vector<uint8_t>& file) {
  const auto put_sum = [&](size_t begin, size_t bytes) {
    const uint32_t sum = masked_crc32c(std::as_bytes(std::span(file).subspan(begin, bytes)));
    std::memcpy(file.data() + begin + bytes, &sum, sizeof sum);
  };
  for (size_t at = 0; file.size() - at >= 16;) {
    uint64_t length = 0;
    std::memcpy(&length, file.data() + at, sizeof length);
    put_sum(at, sizeof length);
    if (length > file.size() - at - 16) return;
    put_sum(at + 12, length);
    at += 16 + length;
  }
}

}  // namespace
}  // namespace trainer

/// Each file unchanged, with corrected checksums, and as the only message of a file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto layout = trainer::tfrecord_layout({.first_label = 1});
  std::vector<uint8_t> file(data, data + size);
  trainer::read_shard(*layout, file);
  trainer::seal_records(file);
  trainer::read_shard(*layout, file);
  const uint64_t length = size;
  std::vector<uint8_t> record(size + 16);
  std::memcpy(record.data(), &length, sizeof length);
  if (size > 0) std::memcpy(record.data() + 12, data, size);
  trainer::seal_records(record);
  trainer::read_shard(*layout, record);
  return 0;
}
