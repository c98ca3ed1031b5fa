// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/jpeg_entropy.h"

#include <algorithm>
#include <cstring>

#include "core/base/multiversion.h"

namespace trainer {
namespace {

/// Coefficient k of a block in the order of the file is at kNatural[k]. A damaged run can pass the end
/// by 15.
constexpr std::array<uint8_t, 64 + 16> kNatural = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33,
    40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36,
    29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63};

/// The value of `size` bits, the highest of `bits`: negative ones begin with 0. Without branches, as signs
/// cannot be predicted.
inline int value_of(uint64_t bits, uint32_t size) {
  const auto raw = static_cast<int>(bits >> 1 >> (63 - size));
  const auto is_positive = static_cast<int>(static_cast<int64_t>(bits) >> 63);
  return raw + (~is_positive & (1 - (1 << size)));
}

}  // namespace

JpegTable::Entry JpegTable::split_entry(uint8_t symbol, int length) const {
  const uint32_t size = is_ac_ ? symbol & 15u : symbol, code = static_cast<uint32_t>(length);
  // Only 16 zeros, F0, come without a value; libjpeg takes all other codes without one for the end.
  const bool is_end = is_ac_ && size == 0 && symbol != 0xF0;
  const uint32_t run = is_end ? kEndRun : is_ac_ ? symbol >> 4 : 0;
  return (code + size) | run << 8 | kSplit | size << 16 | code << 24;
}

bool JpegTable::build(const JpegCode& code, bool is_ac) {
  is_ac_ = is_ac;
  entries_.fill(kSplit);
  uint32_t next = 0;
  int symbol = 0;
  bool is_of_8_bits = true;
  for (int length = 1; length <= 16; ++length, next <<= 1) {
    const auto at = static_cast<size_t>(length);
    first_[at] = next;
    offset_[at] = symbol;
    for (int i = 0; i < code.counts[length]; ++i, ++next, ++symbol) {
      symbols_[static_cast<size_t>(symbol)] = code.symbols[symbol];
      const Entry split = split_entry(code.symbols[symbol], length);
      const uint32_t size = split >> 16 & 0xFF;
      is_of_8_bits = is_of_8_bits && size <= (is_ac ? 10u : 11u);
      const int spare = kBits - length;
      for (uint32_t rest = 0; spare >= 0 && rest < 1u << spare; ++rest) {
        // The value's bits follow the code's.
        const uint64_t bits = spare == 0 ? 0 : static_cast<uint64_t>(rest) << (64 - spare);
        const auto value = static_cast<uint32_t>(value_of(bits, size & 31));
        const bool fits = static_cast<int>(size) <= spare;
        entries_[next << spare | rest] = fits ? (split & 0xFFFF & ~kSplit) | value << 16 : split;
      }
    }
    end_[at] = next;
  }
  if (is_ac) build_runs();
  return is_of_8_bits;
}

void JpegTable::build_runs() {
  // The code that the next bits begin with: its length, 0 for longer ones, and its symbol.
  std::array<uint8_t, size_t{1} << kBits> lengths{}, symbols{};
  for (int length = 1; length <= kBits; ++length) {
    const auto at = static_cast<size_t>(length);
    const auto begin = static_cast<std::ptrdiff_t>(first_[at]) << (kBits - length),
               end = static_cast<std::ptrdiff_t>(end_[at]) << (kBits - length);
    std::fill(lengths.begin() + begin, lengths.begin() + end, static_cast<uint8_t>(length));
    for (uint32_t code = first_[at]; code < end_[at]; ++code) {
      const auto first = symbols.begin() + static_cast<std::ptrdiff_t>(code << (kBits - length));
      std::fill(first, first + (std::ptrdiff_t{1} << (kBits - length)),
                symbols_[static_cast<size_t>(offset_[at]) + code - first_[at]]);
    }
  }
  for (uint32_t bits = 0; bits < runs_.size(); ++bits) {
    uint32_t taken = 0, advance = 0, ends = 0;
    while (taken < kBits && ends == 0) {
      const uint32_t rest = bits << taken & (runs_.size() - 1), length = lengths[rest],
                     symbol = symbols[rest];
      if (length == 0 || length > kBits - taken) break;
      ends = (symbol & 15) == 0 && symbol != 0xF0 ? kEnds : 0;
      advance += ends != 0 ? 0 : (symbol >> 4) + 1;
      taken += length + (symbol & 15);
    }
    runs_[bits] = taken | advance << 8 | ends;
  }
}

JpegTable::Entry JpegTable::long_code(uint64_t bits) const {
  for (int length = kBits + 1; length <= 16; ++length) {
    const auto at = static_cast<size_t>(length);
    const auto code = static_cast<uint32_t>(bits >> (64 - length));
    if (code < first_[at] || code >= end_[at]) continue;
    return split_entry(symbols_[static_cast<size_t>(offset_[at]) + code - first_[at]], length);
  }
  return 0;
}

/// Moves the remaining bytes to the buffer's beginning and appends more.
void JpegStream::refill() {
  // Past the end there are only zeros, and no more of them are taken than a block can need.
  const int64_t left = std::max<int64_t>(0, end_ - bits.at), beyond = std::max<int64_t>(0, bits.at - end_);
  std::memmove(buffer_, end_ - left, static_cast<size_t>(left));
  bits.at = buffer_ + beyond;
  end_ = buffer_ + left;
  const uint8_t* const full = buffer_ + kPiece;
  while (end_ < full && from_ < from_end_) {
    const size_t room = static_cast<size_t>(std::min<int64_t>(full - end_, from_end_ - from_));
    const auto* marker = static_cast<const uint8_t*>(std::memchr(from_, 0xFF, room));
    const size_t plain = marker == nullptr ? room : static_cast<size_t>(marker - from_);
    std::memcpy(end_, from_, plain);
    end_ += plain;
    from_ += plain;
    if (marker == nullptr) continue;
    if (from_end_ - from_ < 2 || from_[1] != 0) break;
    *end_++ = 0xFF;
    from_ += 2;
  }
  std::memset(end_, 0, static_cast<size_t>(buffer_ + sizeof buffer_ - end_));
}

bool JpegStream::restart(int number) {
  // The rest of the segment fills its last byte.
  while (from_end_ - from_ >= 2 && (from_[0] != 0xFF || from_[1] == 0 || from_[1] == 0xFF)) ++from_;
  if (from_end_ - from_ < 2 || from_[1] != 0xD0 + number) return false;
  from_ += 2;
  end_ = buffer_;
  bits = {.at = buffer_};
  refill();
  return true;
}

namespace {

/// Makes at least 56 bits ready.
inline __attribute__((always_inline)) void fill(JpegBits& stream) {
  uint64_t word;
  std::memcpy(&word, stream.at, sizeof word);
  stream.bits |= __builtin_bswap64(word) >> stream.count;
  stream.at += (63 - stream.count) >> 3;
  stream.count |= 56;
}

/// The next code's run and value; false if the code does not exist.
inline __attribute__((always_inline)) bool next(JpegBits& stream, const JpegTable& table, uint32_t& run,
                                                int& value) {
  JpegTable::Entry entry = table.lookup(stream.bits);
  value = static_cast<int32_t>(entry) >> 16;
  if (__builtin_expect((entry & JpegTable::kSplit) != 0, 0)) {
    if (entry == JpegTable::kSplit) entry = table.long_code(stream.bits);
    if (entry == 0) return false;
    value = value_of(stream.bits << (entry >> 24), entry >> 16 & 0xFF);
    entry &= ~JpegTable::kSplit;
  }
  stream.bits <<= entry & 63;
  stream.count -= entry & 0xFF;
  run = entry >> 8 & 0xFF;
  return true;
}

/// A block's first coefficient, which the file gives as the difference from the last block's.
inline __attribute__((always_inline)) bool next_dc(JpegBits& stream, const JpegTable& table, int& last_dc) {
  uint32_t run = 0;
  int value = 0;
  fill(stream);
  if (!next(stream, table, run, value)) return false;
  last_dc = static_cast<int16_t>(last_dc + value);
  return true;
}

}  // namespace

/// 56 bits hold two coefficients, of at most 16 + 11 bits each, so that every other one need fill them again.
TRAINER_MULTIVERSION bool decode_jpeg_block(JpegBits& stream, const JpegTable& dc, const JpegTable& ac,
                                            int& last_dc, int16_t* block) {
  JpegBits bits = stream;
  uint32_t run = 0;
  int value = 0;
  if (!next_dc(bits, dc, last_dc)) return false;
  block[0] = static_cast<int16_t>(last_dc);
  uint32_t k = 1;
  while (k < 64) {
    if (!next(bits, ac, run, value)) return false;
    k += run;
    if (k >= JpegTable::kEndRun) break;
    block[kNatural[k++]] = static_cast<int16_t>(value);
    fill(bits);
    if (k >= 64) break;
    if (!next(bits, ac, run, value)) return false;
    k += run;
    if (k >= JpegTable::kEndRun) break;
    block[kNatural[k++]] = static_cast<int16_t>(value);
  }
  stream = bits;
  return k <= 64 || k >= JpegTable::kEndRun;
}

/// Several codes at once, but not at the end of a block without an end code: the next block's bits follow.
TRAINER_MULTIVERSION bool skip_jpeg_block(JpegBits& stream, const JpegTable& dc, const JpegTable& ac,
                                          int& last_dc) {
  JpegBits bits = stream;
  uint32_t run = 0;
  int value = 0;
  if (!next_dc(bits, dc, last_dc)) return false;
  uint32_t k = 1;
  auto take_several = [&] {
    const uint32_t codes = ac.lookup_run(bits.bits), after = k + (codes >> 8 & 0xFF);
    if (after >= 64 || (codes & 0xFF) == 0) return false;
    bits.bits <<= codes & 63;
    bits.count -= codes & 0xFF;
    k = (codes & JpegTable::kEnds) != 0 ? JpegTable::kEndRun : after;
    return true;
  };
  while (k < 64) {
    fill(bits);  // several take at most 10 + 15 bits
    if (take_several() && (k >= 64 || take_several())) continue;
    if (k >= 64) break;
    if (!next(bits, ac, run, value)) return false;
    k += run;
    if (k >= JpegTable::kEndRun) break;
    ++k;
  }
  stream = bits;
  return k <= 64 || k >= JpegTable::kEndRun;
}

}  // namespace trainer
