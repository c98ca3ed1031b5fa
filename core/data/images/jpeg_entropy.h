// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace trainer {

/// A Huffman code as a JPEG states it: how many codes of each length 1 to 16, and their symbols in order.
struct JpegCode {
  const uint8_t* counts;  ///< 17, the first unused
  const uint8_t* symbols;
};

/// A Huffman code of coefficients, looked up several bits at once.
class JpegTable {
 public:
  static constexpr int kBits = 10;

  /// libjpeg must have accepted the code before. Returns false if it has values of more bits than
  /// images of 8 bits have.
  bool build(const JpegCode& code, bool is_ac);

  /// Meaning of the next bits. Bits 0 to 7: the bits of code and value together, which is all that the next
  /// look-up waits for. Bits 8 to 15: the zeros before the value, kEndRun for all that are left. Bits 16 to
  /// 31: the value. With kSplit the value is beyond the bits looked up: 16 to 23 are then its bits, 24 to 31
  /// the code's. With kSplit alone the code is longer than kBits.
  using Entry = uint32_t;
  static constexpr Entry kSplit = 0x4000;
  static constexpr uint32_t kEndRun = 128;

  Entry lookup(uint64_t bits) const { return entries_[bits >> (64 - kBits)]; }

  /// For skipping a block: all codes that begin and end within the bits looked up, with their values. Bits 0
  /// to 7: the number of bits they take; 8 to 15: by how much they advance; 16: the last one is the end of
  /// the block, which is not in the advance. Zero: the code is longer than kBits, or invalid.
  uint32_t lookup_run(uint64_t bits) const { return runs_[bits >> (64 - kBits)]; }
  static constexpr uint32_t kEnds = 1 << 16;
  /// A code of more than kBits bits, with kSplit; 0 if there is none.
  Entry long_code(uint64_t bits) const;

 private:
  Entry split_entry(uint8_t symbol, int length) const;
  void build_runs();

  std::array<Entry, size_t{1} << kBits> entries_;
  std::array<uint32_t, size_t{1} << kBits> runs_;  // of codes of AC coefficients
  std::array<uint32_t, 17> first_, end_;           // of the codes of each length
  std::array<int, 17> offset_;                     // of their symbols
  std::array<uint8_t, 256> symbols_;
  bool is_ac_ = false;
};

/// The next bits of a scan, highest first. A plain value, so that a block's loop keeps it in registers.
struct JpegBits {
  const uint8_t* at = nullptr;  ///< the next byte of the stream's buffer
  uint64_t bits = 0;
  int64_t count = 0;  ///< how many of them are ready
};

/// The compressed bytes of a scan up to the next marker, without those that are stuffed after each FF; then
/// zeros. Hands them out a piece at a time.
class JpegStream {
 public:
  void open(const uint8_t* begin, const uint8_t* end) {
    from_ = begin, from_end_ = end;
    bits.at = end_ = buffer_;
  }

  /// Makes all bytes ready that a block can need. Once before each block.
  void prepare() {
    if (end_ - bits.at < kMostBlockBytes) refill();
  }
  /// True if more was taken than there was.
  bool is_overrun() const { return (bits.at - end_) * 8 > bits.count; }
  /// Goes on after the next marker, which must be restart marker `number` of 8.
  bool restart(int number);

  JpegBits bits;

 private:
  /// 64 coefficients of at most 27 bits, and the 8 bytes of a look ahead.
  static constexpr int64_t kMostBlockBytes = 64 * 27 / 8 + 8;
  static constexpr int64_t kPiece = 4096;

  void refill();

  const uint8_t* from_ = nullptr;
  const uint8_t* from_end_ = nullptr;
  uint8_t* end_ = nullptr;  // of the scan's bytes in the buffer
  uint8_t buffer_[kPiece + 3 * kMostBlockBytes];
};

/// One block of 8x8 coefficients in their natural order, which `block` holds as zeros. Returns false if
/// the data is damaged; `stream` must be prepared.
bool decode_jpeg_block(JpegBits& stream, const JpegTable& dc, const JpegTable& ac, int& last_dc,
                       int16_t* block);

/// The same for a block that is not needed.
bool skip_jpeg_block(JpegBits& stream, const JpegTable& dc, const JpegTable& ac, int& last_dc);

}  // namespace trainer
