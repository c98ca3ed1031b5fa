// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/record.h"

#include <cstring>

#include "core/base/checksum.h"
#include "core/data/images/record_layout.h"
#include "tests/fuzz/files.h"

namespace trainer {
namespace {

/// Small enough for thousands of tries a second.
constexpr int64_t kMostPixels = 1 << 16;

template <class T>
T get(const std::vector<uint8_t>& file, size_t at) {
  T value;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

template <class T>
void put(std::vector<uint8_t>& file, size_t at, const T& value) {
  std::memcpy(file.data() + at, &value, sizeof value);
}

uint64_t sum_of(const std::vector<uint8_t>& file, size_t begin, size_t bytes) {
  return checksum(std::as_bytes(std::span(file).subspan(begin, bytes)));
}

/// Corrects the checksums, which a mutation hardly ever hits, so that the code after their check is reached.
void seal(std::vector<uint8_t>& file) {
  if (file.size() < sizeof(RecordHead) + sizeof(RecordTail)) return;
  put(file, 0, RecordHead{}.mark);
  const size_t tail_at = file.size() - sizeof(RecordTail);
  auto tail = get<RecordTail>(file, tail_at);
  tail.mark = kRecordTail;
  if (tail.index <= tail_at) {
    for (size_t at = tail.index; tail_at - at >= sizeof(RecordEntry); at += sizeof(RecordEntry)) {
      auto entry = get<RecordEntry>(file, at);
      if (entry.offset > tail_at || entry.bytes > tail_at - entry.offset) break;
      entry.sum = sum_of(file, entry.offset, entry.bytes);
      put(file, at, entry);
    }
    tail.index_sum = sum_of(file, tail.index, tail_at - tail.index);
  }
  put(file, tail_at, tail);
  tail.sum = sum_of(file, tail_at, offsetof(RecordTail, sum));
  put(file, tail_at, tail);
}

void try_record(const std::vector<uint8_t>& file) {
  const std::string path = put_file("record", file);
  read_or_refuse([&] { return open_record(path, kMostPixels); });
}

}  // namespace
}  // namespace trainer

/// Each file unchanged, and with corrected checksums.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> file(data, data + size);
  trainer::try_record(file);
  trainer::seal(file);
  trainer::try_record(file);
  return 0;
}
