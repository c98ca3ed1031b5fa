// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <limits>
#include <vector>
#include "tests/catch.h"

#include "core/base/bfloat16.h"
#include "cpu/columns.h"
#include "tests/reference/low_types.h"

using namespace trainer;

namespace {

const float kNarrowInfinity = std::numeric_limits<float>::infinity();

/// Every upper half of an fp32 number with lower halves around the ties.
std::vector<float> many_floats() {
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (uint32_t lower : {0x0000U, 0x0001U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  return values;
}

}  // namespace

TEST_CASE("bf16 rounds to nearest, ties to even, and keeps what is not finite") {
  CHECK(float(BFloat16(1.0f)) == 1.0f);
  CHECK(float(BFloat16(1.0f + 1.0f / 256)) == 1.0f);
  CHECK(float(BFloat16(1.0f + 3.0f / 256)) == 1.0f + 4.0f / 256);
  CHECK(float(BFloat16(-1.0f - 1.1f / 256)) == -1.0f - 2.0f / 256);
  CHECK(float(BFloat16(std::numeric_limits<float>::max())) == kNarrowInfinity);
  CHECK(float(BFloat16(-kNarrowInfinity)) == -kNarrowInfinity);
  CHECK(std::signbit(float(BFloat16(-0.0f))));
  // A NaN with an upper half that alone would be an infinity.
  CHECK(std::isnan(float(BFloat16(std::bit_cast<float>(0x7F800001U)))));
}

TEST_CASE("rows of sixteen and the reference round as single numbers do") {
  const std::vector<float> values = many_floats();
  size_t different = 0;
  for (size_t i = 0; i + cpu::kColumns <= values.size(); i += cpu::kColumns) {
    cpu::Row row;
    BFloat16 stored[cpu::kColumns];
    cpu::load(values.data() + i, row);
    cpu::store(row, stored);
    cpu::load(stored, row);
    for (size_t s = 0; s < cpu::kColumns; ++s) {
      const float value = values[i + s], expected = float(BFloat16(value));
      const double rounded = reference::rounded(value, DType::bf16);
      const bool row_agrees = stored[s].bits == BFloat16(value).bits &&
                              std::bit_cast<uint32_t>(row[s]) == std::bit_cast<uint32_t>(expected);
      const bool reference_agrees =
          std::isnan(value) ? std::isnan(rounded) && std::isnan(expected) : rounded == expected;
      different += row_agrees && reference_agrees ? 0 : 1;
    }
  }
  CHECK(different == 0);
}

TEST_CASE("fp16 rounds to eleven digits, down to 2^-24 and up to 65504") {
  auto rounded = [](double value) { return reference::rounded(value, DType::f16); };
  CHECK(rounded(1 + 1.0 / 2048) == 1);
  CHECK(rounded(1 + 3.0 / 2048) == 1 + 4.0 / 2048);
  CHECK(rounded(65519) == 65504);
  CHECK(rounded(65520) == kNarrowInfinity);
  CHECK(rounded(-1e30) == -kNarrowInfinity);
  CHECK(rounded(std::ldexp(1.4, -24)) == std::ldexp(1, -24));
  CHECK(rounded(std::ldexp(0.5, -24)) == 0);
  CHECK(std::isnan(rounded(NAN)));
}
