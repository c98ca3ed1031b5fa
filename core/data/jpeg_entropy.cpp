// SPDX-License-Identifier: Apache-2.0
#include "core/data/jpeg_entropy.h"

#include <algorithm>
#include <cstring>

#include "core/base/multiversion.h"

namespace trainer {
namespace {

/// Coefficient k of a block in the order of the file lies at kNatural[k]. A damaged run can pass the end
/// by 15.
constexpr std::array<uint8_t, 64 + 16> kNatural = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33,
    40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36,
    29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63};

/// The value that `size` bits, the highest of `bits`, stand for: negative ones begin with 0. Without
/// branches, as signs cannot be predicted.
inline int value_of(uint64_t bits, uint32_t size) {
  const auto raw = static_cast<int>(bits >> 1 >> (63 - size));
  const auto is_positive = static_cast<int>(static_cast<int64_t>(bits) >> 63);
  return raw + (~is_positive & (1 - (1 << size)));
}

}  // namespace

JpegTable::Entry JpegTable::entry_of(uint8_t symbol, int length) const {
  const int size = is_ac_ ? symbol & 15 : symbol;
  const uint32_t run = !is_ac_ ? 0 : symbol == 0 ? kEndRun : symbol >> 4;
  return {static_cast<uint8_t>(length), static_cast<uint8_t>(size), static_cast<uint8_t>(length + size),
          static_cast<uint8_t>(run)};
}

bool JpegTable::build(const JpegCode& code, bool is_ac) {
  is_ac_ = is_ac;
  entries_.fill({});
  uint32_t next = 0;
  int symbol = 0;
  bool is_of_8_bits = true;
  for (int length = 1; length <= 16; ++length, next <<= 1) {
    const auto at = static_cast<size_t>(length);
    first_[at] = next;
    offset_[at] = symbol;
    for (int i = 0; i < code.counts[length]; ++i, ++next, ++symbol) {
      symbols_[static_cast<size_t>(symbol)] = code.symbols[symbol];
      is_of_8_bits = is_of_8_bits && entry_of(code.symbols[symbol], length).size <= (is_ac ? 10 : 11);
      if (length > kBits) continue;
      const int spare = kBits - length;
      std::fill_n(entries_.begin() + (next << spare), 1 << spare, entry_of(code.symbols[symbol], length));
    }
    end_[at] = next;
  }
  return is_of_8_bits;
}

JpegTable::Entry JpegTable::long_code(uint64_t bits) const {
  for (int length = kBits + 1; length <= 16; ++length) {
    const auto at = static_cast<size_t>(length);
    const auto code = static_cast<uint32_t>(bits >> (64 - length));
    if (code < first_[at] || code >= end_[at]) continue;
    return entry_of(symbols_[static_cast<size_t>(offset_[at]) + code - first_[at]], length);
  }
  return {};
}

/// Moves what is left to the buffer's beginning and adds to it.
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
  // What is left of the segment are bits that fill its last byte.
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

/// The next code and its value; false where there is none such.
inline __attribute__((always_inline)) bool next(JpegBits& stream, const JpegTable& table,
                                                JpegTable::Entry& entry, int& value) {
  entry = table.lookup(stream.bits);
  if (__builtin_expect(entry.length == 0, 0)) {
    entry = table.long_code(stream.bits);
    if (entry.length == 0) return false;
  }
  value = value_of(stream.bits << entry.length, entry.size);
  stream.bits <<= entry.total;
  stream.count -= entry.total;
  return true;
}

}  // namespace

/// 56 bits hold two coefficients, of at most 16 + 11 bits each, so that every other one need fill them again.
TRAINER_MULTIVERSION bool decode_jpeg_block(JpegBits& stream, const JpegTable& dc, const JpegTable& ac,
                                            int& last_dc, int16_t* block) {
  int16_t unwanted[64];
  int16_t* const to = block != nullptr ? block : unwanted;
  JpegBits bits = stream;
  JpegTable::Entry entry;
  int value = 0;
  fill(bits);
  if (!next(bits, dc, entry, value)) return false;
  last_dc = static_cast<int16_t>(last_dc + value);
  to[0] = static_cast<int16_t>(last_dc);
  uint32_t k = 1;
  while (k < 64) {
    if (!next(bits, ac, entry, value)) return false;
    k += entry.run;
    if (k >= JpegTable::kEndRun) break;
    to[kNatural[k++]] = static_cast<int16_t>(value);
    fill(bits);
    if (k >= 64) break;
    if (!next(bits, ac, entry, value)) return false;
    k += entry.run;
    if (k >= JpegTable::kEndRun) break;
    to[kNatural[k++]] = static_cast<int16_t>(value);
  }
  stream = bits;
  return k <= 64 || k >= JpegTable::kEndRun;
}

}  // namespace trainer
