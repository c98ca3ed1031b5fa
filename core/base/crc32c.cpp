// SPDX-License-Identifier: Apache-2.0
#include "core/base/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace trainer {
namespace {

#if defined(__x86_64__)
#define TRAINER_CRC_TARGET __attribute__((target("sse4.2")))

bool has_instruction() {
  return __builtin_cpu_supports("sse4.2") != 0;
}
TRAINER_CRC_TARGET inline uint32_t add_word(uint32_t sum, uint64_t word) {
  return static_cast<uint32_t>(_mm_crc32_u64(sum, word));
}
TRAINER_CRC_TARGET inline uint32_t add_byte(uint32_t sum, uint8_t byte) {
  return _mm_crc32_u8(sum, byte);
}
#elif defined(__aarch64__)
#define TRAINER_CRC_TARGET

bool has_instruction() {
  constexpr unsigned long kCrc32 = 1UL << 7U;  // HWCAP_CRC32
  return (::getauxval(AT_HWCAP) & kCrc32) != 0;
}
// As assembly, which needs neither compiler options nor a header of one of them.
inline uint32_t add_word(uint32_t sum, uint64_t word) {
  uint32_t result = 0;
  __asm__(".arch_extension crc\n\tcrc32cx %w0, %w1, %x2" : "=r"(result) : "r"(sum), "r"(word));
  return result;
}
inline uint32_t add_byte(uint32_t sum, uint8_t byte) {
  uint32_t result = 0;
  __asm__(".arch_extension crc\n\tcrc32cb %w0, %w1, %w2"
          : "=r"(result)
          : "r"(sum), "r"(static_cast<uint32_t>(byte)));
  return result;
}
#endif

#ifdef TRAINER_CRC_TARGET
TRAINER_CRC_TARGET uint32_t crc32c_by_instruction(std::span<const std::byte> bytes) {
  uint32_t sum = ~0u;
  size_t at = 0;
  for (uint64_t word = 0; bytes.size() - at >= sizeof word; at += sizeof word) {
    std::memcpy(&word, bytes.data() + at, sizeof word);
    sum = add_word(sum, word);
  }
  for (; at < bytes.size(); ++at) sum = add_byte(sum, std::to_integer<uint8_t>(bytes[at]));
  return ~sum;
}
#endif

}  // namespace

uint32_t crc32c_by_table(std::span<const std::byte> bytes) {
  static constexpr auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < table.size(); ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0);
      table[i] = value;
    }
    return table;
  }();
  uint32_t sum = ~0u;
  for (const std::byte byte : bytes) sum = sum >> 8 ^ kTable[(sum ^ std::to_integer<uint8_t>(byte)) & 0xff];
  return ~sum;
}

uint32_t crc32c(std::span<const std::byte> bytes) {
#ifdef TRAINER_CRC_TARGET
  static const bool is_fast = has_instruction();
  if (is_fast) return crc32c_by_instruction(bytes);
#endif
  return crc32c_by_table(bytes);
}

uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

}  // namespace trainer
