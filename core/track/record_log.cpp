// SPDX-License-Identifier: Apache-2.0
#include "core/track/record_log.h"

#include <zlib.h>

#include <cstdint>
#include <span>

namespace trainer {
namespace {

constexpr size_t kBlock = size_t{32} << 10, kHead = 7;

template <class Integer>
std::string little_endian(Integer value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(Integer); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

}  // namespace

RecordLog::RecordLog(const ByteSink& sink) : sink_(sink) {
  constexpr uint16_t kMagic = 0xBEE1;
  constexpr uint8_t kFormat = 0;
  write(":W&B" + little_endian(kMagic) + little_endian(kFormat));
}

void RecordLog::add(std::string_view record) {
  bool is_first = true;
  do {
    const size_t left = kBlock - position_ % kBlock;
    if (left < kHead) {  // no piece begins there
      write(std::string(left, '\0'));
      continue;
    }
    const std::string_view piece = record.substr(0, left - kHead);
    record.remove_prefix(piece.size());
    write_piece(piece, is_first, record.empty());
    is_first = false;
  } while (is_first || !record.empty());
}

void RecordLog::write_piece(std::string_view piece, bool is_first, bool is_last) {
  enum Kind : uint8_t { whole = 1, first, middle, last };
  const Kind begins = is_last ? whole : first, goes_on = is_last ? last : middle;
  const std::string checked = little_endian<uint8_t>(is_first ? begins : goes_on) + std::string(piece);
  const auto sum = static_cast<uint32_t>(
      ::crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size())));
  write(little_endian(sum) + little_endian(static_cast<uint16_t>(piece.size())) + checked);
}

void RecordLog::write(const std::string& bytes) {
  sink_(std::as_bytes(std::span(bytes)));
  position_ += bytes.size();
}

}  // namespace trainer
