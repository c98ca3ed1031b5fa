// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trainer {

// A record file: head, the samples' bytes one after another, the index (one entry per sample), the names of
// the classes, tail. The names are a count, then length and bytes of each, all counts u32. In version 2 the
// texts of the transforms that the images have had follow in the same way. Numbers are little-endian without
// padding. Written from front to end. A checksum covers each byte, or it has only one possible value.
static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

constexpr uint32_t kRecordVersion = 1, kTransformedRecordVersion = 2;
constexpr std::array<char, 8> kRecordHead = {'t', 'r', 'a', 'i', 'n', 'r', 'e', 'c'};
constexpr std::array<char, 8> kRecordTail = {'c', 'e', 'r', 'n', 'i', 'a', 'r', 't'};

/// The kind of a sample's bytes: pixels in planar order (C, H, W), or an image file.
enum class RecordKind : uint32_t { pixels = 0, encoded = 1 };

struct RecordHead {
  std::array<char, 8> mark = kRecordHead;
  uint32_t version = kRecordVersion;
  RecordKind kind = RecordKind::pixels;
};
static_assert(sizeof(RecordHead) == 16);

struct RecordEntry {
  uint64_t offset = 0, bytes = 0;
  uint64_t sum = 0;  ///< checksum of the sample's bytes
  uint64_t label = 0;
};
static_assert(sizeof(RecordEntry) == 32);

struct RecordTail {
  uint64_t samples = 0, classes = 0;
  int64_t channels = 0, height = 0, width = 0;  ///< of every sample; height and width are -1 if encoded
  uint64_t index = 0, names = 0;                ///< offsets
  uint64_t index_sum = 0;                       ///< checksum of index and names
  uint64_t sum = 0;                             ///< checksum of the tail up to here
  std::array<char, 8> mark = kRecordTail;
};
static_assert(sizeof(RecordTail) == 80);

}  // namespace trainer
