// SPDX-License-Identifier: Apache-2.0
#include "core/engine/stored.h"

#include <cmath>
#include <limits>
#include "tests/catch.h"

#include "core/base/bfloat16.h"
#include "core/base/float16.h"
#include "core/base/rng.h"
#include "cpu/backend.h"
#include "tests/engine/late_backend.h"
#include "tests/engine/transfers.h"
#include "tests/reference/backend.h"
#include "tests/reference/low_types.h"

namespace trainer {
namespace {

/// fp16 or bf16 numbers near all cases that a conversion has to distinguish: signs, exponents, ties and
/// neighbours.
std::vector<float> corners() {
  std::vector<float> numbers = {0.0f, -0.0f, std::numeric_limits<float>::infinity(),
                                -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max()};
  for (uint32_t sign : {0U, 1U}) {
    for (uint32_t exponent = 0; exponent < 255; ++exponent) {
      for (uint32_t high = 0; high < 1024; high += 1 + high / 8) {
        for (uint32_t low : {0U, 1U, 0xFFFU, 0x1000U, 0x1001U, 0x1FFFU, 0x8000U})
          numbers.push_back(std::bit_cast<float>(sign << 31 | exponent << 23 | high << 13 | low));
      }
    }
  }
  return numbers;
}

template <class Low>
void check_against_reference(DType dtype) {
  for (const float number : corners()) {
    const double expected = reference::rounded(number, dtype);
    const auto found = static_cast<float>(Low(number));
    if (found == expected && std::signbit(found) == std::signbit(expected)) continue;
    FAIL(number << " became " << found << ", not " << expected);
  }
}

}  // namespace

TEST_CASE("fp16 rounds to nearest, ties to even, as the reference does; every fp16 number survives") {
  check_against_reference<Float16>(DType::f16);
  check_against_reference<BFloat16>(DType::bf16);
  CHECK(std::isnan(static_cast<float>(Float16(std::numeric_limits<float>::quiet_NaN()))));
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    Float16 number;
    number.bits = static_cast<uint16_t>(bits);
    const auto wide = static_cast<float>(number);
    if (!std::isnan(wide) && Float16(wide).bits != bits) FAIL(bits << " became " << Float16(wide).bits);
  }
}

TEST_CASE("a stored type is only read as numbers that hold it") {
  const std::vector<int32_t> large = {16777217, -5};
  const StoredType i32{.dtype = DType::i32, .bytes = 4}, f32{.dtype = DType::f32, .bytes = 4};
  const auto stored = to_stored(std::span(large), i32);
  CHECK(from_stored<int32_t>(stored, i32) == large);
  CHECK(from_stored<double>(stored, i32) == std::vector<double>{16777217, -5});
  CHECK_THROWS_AS(from_stored<float>(stored, i32), std::logic_error);
  CHECK_THROWS_AS(from_stored<int32_t>(stored, f32), std::logic_error);
  CHECK_THROWS_AS(from_stored<float>(stored, {.dtype = DType::f32, .bytes = 3}), std::logic_error);
}

TEST_CASE("numbers of every type pass through each backend's memory as they were") {
  const Backend cpu = make_cpu_backend(2), reference = make_reference_backend();
  const LateBackend late(cpu);
  for (const Backend* backend : {&cpu, &reference, static_cast<const Backend*>(&late)})
    check_transfers(*backend);
}

}  // namespace trainer
