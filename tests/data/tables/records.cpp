// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/data/tables/table.h"
#include "tests/catch.h"

namespace trainer {
namespace {

TableRequest request_of_y(TargetUse use) {
  TableRequest request{.targets = use, .origin_of = [](const std::string& key) { return Origin{{}, key}; }};
  request.keys.target = {"y"};
  request.keys.ignore = {"note"};
  request.keys.categorical = {"kind"};
  request.keys.empty_target = "drop";
  return request;
}

constexpr std::array kNumbers = {"0",
                                 "-0",
                                 "7",
                                 "-12.5",
                                 ".5",
                                 "5.",
                                 "1e3",
                                 "-2.5E-3",
                                 " 8 ",
                                 "+4",
                                 "0.038075906433423026",
                                 "00012",
                                 "123456789012345",
                                 "1234567890123456",
                                 "340282346638528860000000000000000000000",
                                 "",
                                 "NA",
                                 "nan"};
constexpr std::array kTexts = {"a",         "b",  "NA",      "", "a longer text of more than eight bytes",
                               "12345678x", " a", "\xC3\xA4"};

/// The same records with and without quotes around each field.
std::pair<std::string, std::string> random_texts(uint32_t seed) {
  std::mt19937 random(seed);
  const auto any = [&](const auto& all) { return std::string(all[random() % all.size()]); };
  std::string plain = "x,kind,note,z,y\n", quoted = plain;
  const std::string line_end = seed % 2 == 0 ? "\n" : "\r\n";
  for (int row = 0; row < 200; ++row) {
    const std::array fields = {any(kNumbers), any(kTexts), any(kTexts), any(kNumbers),
                               row % 5 == 0 ? any(kNumbers) : std::to_string(row % 2)};
    for (size_t c = 0; c < fields.size(); ++c) {
      const std::string end = c + 1 == fields.size() ? row == 199 && seed % 3 == 0 ? "" : line_end : ",";
      plain += fields[c] + end;
      quoted += "\"" + fields[c] + "\"" + end;
    }
    if (random() % 20 == 0) {
      plain += line_end;
      quoted += line_end;
    }
  }
  return {plain, quoted};
}

std::vector<uint32_t> bits_of(const LargeVector<float>& numbers) {
  std::vector<uint32_t> bits;
  for (const float number : numbers) bits.push_back(number == number ? std::bit_cast<uint32_t>(number) : 1);
  return bits;
}

TEST_CASE("a table: records without quotes, which one walk reads, and the same with quotes are equal") {
  for (const TargetUse use : {TargetUse::numbers, TargetUse::classes, TargetUse::none}) {
    const TableRequest request = request_of_y(use);
    for (uint32_t seed = 0; seed < 12; ++seed) {
      INFO("seed " << seed);
      const auto [plain, quoted] = random_texts(seed);
      const auto one = parse_table({{plain, "t.csv"}}, request, 1);
      const auto other = parse_table({{quoted, "t.csv"}}, request, 1);
      CHECK(one->rows == other->rows);
      CHECK(one->rows > 100);
      CHECK((one->without_target > 0) == (use != TargetUse::none));
      CHECK(one->without_target == other->without_target);
      CHECK(bits_of(one->numbers) == bits_of(other->numbers));
      CHECK(one->codes == other->codes);
      CHECK(one->words == other->words);
    }
  }
}

TEST_CASE("a table: a wrong record is named alike with and without quotes") {
  const TableRequest request = request_of_y(TargetUse::numbers);
  const auto error = [&](const std::string& text) -> std::string {
    try {
      parse_table({{text, "t.csv"}}, request, 1);
    } catch (const Error& refusal) {
      return refusal.what();
    }
    return "no error";
  };
  for (const auto& [plain, quoted] :
       std::vector<std::pair<std::string, std::string>>{{"1e40,a,,1,1\n", "\"1e40\",a,,1,1\n"},
                                                        {"1,a,,1,1,2\n", "1,\"a\",,1,1,2\n"},
                                                        {"1,a,1\n", "1,\"a\",1\n"}}) {
    const std::string begin = "x,kind,note,z,y\n1,b,,2,3\n";
    CHECK(error(begin + plain) == error(begin + quoted));
    CHECK(error(begin + plain).starts_with("t.csv:3: "));
  }
  CHECK(error("x,kind,note,z,y\n1,b,,2,3\n1,b\rc,,2,3\n").starts_with("t.csv:3: "));
  CHECK(error("x,kind,note,z,y\n1,b,,2,3\n1,b\"c,,2,3\n").starts_with("t.csv:3: "));
}

}  // namespace
}  // namespace trainer
