// SPDX-License-Identifier: Apache-2.0
#include "core/search/halving.h"

#include <array>
#include <limits>
#include <string>

#include "tests/catch.h"
#include "tests/search/fixture.h"

#include "core/base/rng.h"

namespace trainer {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

/// One of 24 values, so that there are ties; one in 32 is NaN.
double drawn_value(RandomStream& stream) {
  const uint32_t word = stream.next_word();
  return word % 32 == 0 ? kNan : (word >> 8) % 24 / 4.0 - 3;
}

/// Mixes how many of four rungs each setting of a drawn sequence passed into a hash (64-bit FNV-1a).
void hash_sequence(RandomStream& stream, uint64_t& hash) {
  const uint32_t head = stream.next_word();
  std::array<std::vector<double>, 4> at_rung;
  for (uint32_t setting = 0; setting < 1 + head / 8 % 20; ++setting) {
    uint64_t passed = 0;
    bool goes = true;
    for (std::vector<double>& values : at_rung) {
      const double value = drawn_value(stream);
      if (!goes) continue;
      values.push_back(value);
      goes = goes_on(values, 2 + head / 2 % 3, head % 2 == 1);
      passed += goes ? 1 : 0;
    }
    hash = (hash ^ passed) * 0x100000001B3u;
  }
}

TEST_CASE("halving: 10,000 sequences are decided as by Optuna's SuccessiveHalvingPruner") {
  RandomStream stream(random_key(1, "halving"));
  const std::vector<Json> expected = search_fixture("halving");
  REQUIRE(expected.size() == 100);
  for (size_t block = 0; block < expected.size(); ++block) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (int i = 0; i < 100; ++i) hash_sequence(stream, hash);
    INFO("sequences from " << 100 * block);
    CHECK(std::to_string(hash) == expected[block].text());
  }
}

TEST_CASE("halving: the best 1 / factor go on, and all that equal one of them") {
  const auto decide = [](const std::vector<double>& values, bool maximize = false) {
    return goes_on(values, 3, maximize);
  };
  CHECK(decide({5}));
  CHECK_FALSE(decide({5, 6}));
  CHECK(decide({5, 5}));
  CHECK_FALSE(decide({1, 2, 3, 4, 2.5}));
  CHECK(decide({1, 2, 3, 4, 5, 1.5}));
  CHECK_FALSE(decide({1, 2, 3, 4, 5, 2.5}));
  CHECK(decide({5, 6}, true));
  CHECK_FALSE(decide({5, 4}, true));
}

TEST_CASE("halving: NaN stops and is not counted") {
  CHECK_FALSE(goes_on(std::vector{kNan}, 2, false));
  CHECK(goes_on(std::vector{kNan, 1.0}, 2, true));
  CHECK(goes_on(std::vector{1.0, 2.0, 3.0, 1.5}, 2, false));
  CHECK_FALSE(goes_on(std::vector{1.0, kNan, 3.0, 1.5}, 2, false));
}

TEST_CASE("halving: rungs are below the end and do not overflow") {
  CHECK(rungs(1, 3, 30) == std::vector<int64_t>{1, 3, 9, 27});
  CHECK(rungs(1, 3, 27) == std::vector<int64_t>{1, 3, 9});
  CHECK(rungs(5, 2, 6) == std::vector<int64_t>{5});
  CHECK(rungs(5, 2, 5).empty());
  CHECK(rungs(1, 2, kLargest).size() == 63);
  CHECK(rungs(kLargest - 1, 4, kLargest) == std::vector<int64_t>{kLargest - 1});
}

}  // namespace
}  // namespace trainer
