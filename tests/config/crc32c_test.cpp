// SPDX-License-Identifier: Apache-2.0
#include "core/base/crc32c.h"

#include <numeric>
#include <string>
#include <vector>
#include "tests/catch.h"

namespace trainer {
namespace {

uint32_t sum_of(const std::string& text) {
  return crc32c(std::as_bytes(std::span(text)));
}

TEST_CASE("CRC-32C has the values of RFC 3720") {
  CHECK(sum_of("") == 0);
  CHECK(sum_of("123456789") == 0xe3069283);
  CHECK(sum_of(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(sum_of(std::string(32, '\xff')) == 0x62a8ab43);
}

TEST_CASE("the processor's instruction and the table give the same CRC-32C, of any length") {
  std::vector<std::byte> bytes(300);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + i / 7);
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t length = 0; begin + length <= bytes.size(); length += length < 40 ? 1 : 31) {
      const auto part = std::span<const std::byte>(bytes).subspan(begin, length);
      CHECK(crc32c(part) == crc32c_by_table(part));
    }
  }
}

TEST_CASE("a masked CRC-32C is that of TensorFlow's files") {
  // The head of a record of 3 bytes, by tf.io.TFRecordWriter.
  const std::string length("\3\0\0\0\0\0\0\0", 8);
  CHECK(masked_crc32c(std::as_bytes(std::span(length))) == 0x0e4999b0);
}

}  // namespace
}  // namespace trainer
