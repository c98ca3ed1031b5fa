// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "core/base/bfloat16.h"
#include "core/engine/layout.h"

// Images as matrices of sixteen columns. In any layout with channels in blocks of 1, 8 or 16, element i of a
// run belongs to channel i % block. So column s holds channel s % block, and one loop serves all.

namespace trainer::cpu {

constexpr int64_t kColumns = 16;
/// Rows that are summed in f32 before the sum goes into double.
constexpr int64_t kRowsPerSum = 256;

/// A row of the matrix; the compiler uses one register or several, depending on the processor.
using Row = float __attribute__((vector_size(kColumns * sizeof(float))));

/// A bit for each element: word s of a group holds those of column s in up to 32 rows.
using Bits = int32_t __attribute__((vector_size(kColumns * sizeof(int32_t))));
constexpr int64_t kRowsOfBits = 32;

// References, not values: how a Row is passed by value differs between instruction sets.
inline __attribute__((always_inline)) void load(const float* from, Row& row) {
  std::memcpy(&row, from, sizeof row);
}
inline __attribute__((always_inline)) void store(const Row& row, float* to) {
  std::memcpy(to, &row, sizeof row);
}

/// The same for rows that are stored as bf16; BFloat16's conversions, sixteen at once.
using WordRow = uint32_t __attribute__((vector_size(kColumns * sizeof(uint32_t))));
using Halves = uint16_t __attribute__((vector_size(kColumns * sizeof(uint16_t))));

inline __attribute__((always_inline)) void load(const BFloat16* from, Row& row) {
  Halves halves;
  std::memcpy(&halves, from, sizeof halves);
  const WordRow words = __builtin_convertvector(halves, WordRow) << 16;
  std::memcpy(&row, &words, sizeof row);
}
inline __attribute__((always_inline)) void store(const Row& row, BFloat16* to) {
  WordRow words;
  std::memcpy(&words, &row, sizeof words);
  const WordRow rounded = (words + 0x7FFFU + (words >> 16 & 1U)) >> 16, quiet = words >> 16 | 0x40U;
  const auto is_number = (words & 0x7FFFFFFFU) <= 0x7F800000U;
  const Halves halves = __builtin_convertvector(is_number ? rounded : quiet, Halves);
  std::memcpy(to, &halves, sizeof halves);
}

/// Keeps the elements with a bit in this row's mask (of a run), zero elsewhere.
inline __attribute__((always_inline)) void keep_masked(const int32_t* mask, int64_t row, Row& value) {
  Bits bits;
  std::memcpy(&bits, mask + row / kRowsOfBits * kColumns, sizeof bits);
  value = (bits & (1 << row % kRowsOfBits)) != 0 ? value : Row{};
}
inline bool has_bit(const int32_t* mask, int64_t row, size_t column) {
  return (mask[row / kRowsOfBits * kColumns + static_cast<int64_t>(column)] >> row % kRowsOfBits & 1) != 0;
}

/// Part of a run: the offsets of its elements and of their bits (in words).
struct Piece {
  int64_t offset, count, bits;
};

/// The layout of (N, C, H, W): for each sample `blocks` blocks of `lanes` channels, each `run` elements long.
struct ChannelBlocks {
  int64_t samples, channels, lanes, blocks, run;

  /// Runs are split so that one thread's share is neither tiny nor larger than its cache.
  static constexpr int64_t kMostElements = int64_t{1} << 15;

  int64_t cuts() const { return (run + kMostElements - 1) / kMostElements; }
  int64_t piece_elements() const { return std::min(run, kMostElements); }
  int64_t pieces() const { return samples * cuts(); }
  Piece piece(int64_t block, int64_t i) const {
    const int64_t within = i % cuts() * kMostElements;
    const int64_t index = i / cuts() * blocks + block;
    return {index * run + within, std::min(kMostElements, run - within),
            index * run_words() + within / kRowsOfBits};
  }
  /// WordRow of the bits of a run, and of all.
  int64_t run_words() const {
    constexpr int64_t kGroup = kColumns * kRowsOfBits;
    return (run + kGroup - 1) / kGroup * kColumns;
  }
  int64_t words() const { return samples * blocks * run_words(); }
  /// Channels of a block that are not padding.
  int64_t lanes_used(int64_t block) const { return std::min(lanes, channels - block * lanes); }
};

/// The layout of a mask (u8) for such images: its bits, as bytes in a row.
inline Layout bits_layout(const ChannelBlocks& blocks) {
  const Shape bytes{blocks.words() * static_cast<int64_t>(sizeof(int32_t))};
  return {.dims = bytes, .padded = bytes, .strides = {1}, .block_sizes = {}, .block_dims = {}};
}

/// Nothing if the layout has no such blocks.
inline std::optional<ChannelBlocks> channel_blocks(const Layout& layout, const Shape& shape) {
  const int64_t area = shape[2] * shape[3];
  if (layout.row_major()) return ChannelBlocks{shape[0], shape[1], 1, shape[1], area};
  const bool one_block = layout.dims == shape && layout.block_dims == std::vector<int64_t>{1};
  if (!one_block || (layout.block_sizes[0] != 8 && layout.block_sizes[0] != 16)) return std::nullopt;
  const int64_t lanes = layout.block_sizes[0], blocks = layout.padded[1] / lanes;
  const std::vector<int64_t> dense{blocks * area * lanes, area * lanes, shape[3] * lanes, lanes};
  if (layout.strides != dense || layout.padded[0] != shape[0]) return std::nullopt;
  return ChannelBlocks{shape[0], shape[1], lanes, blocks, area * lanes};
}

/// The layout of (N, C, H, W) with blocks of `lanes` channels, as oneDNN writes it; 1: row-major.
inline Layout channel_layout(int64_t lanes, const Shape& shape) {
  if (lanes == 1) return {};
  const int64_t blocks = (shape[1] + lanes - 1) / lanes, area = shape[2] * shape[3];
  return {.dims = shape,
          .padded = {shape[0], blocks * lanes, shape[2], shape[3]},
          .strides = {blocks * area * lanes, area * lanes, shape[3] * lanes, lanes},
          .block_sizes = {lanes},
          .block_dims = {1}};
}

/// The layout so far if its channels are in blocks, else row-major.
inline Layout blocked_or_row_major(const std::optional<Layout>& now, const Shape& shape) {
  const Layout layout = now.value_or(Layout{});
  return channel_blocks(layout, shape) ? layout : Layout{};
}

}  // namespace trainer::cpu
