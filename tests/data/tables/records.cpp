// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/data/tables/part_parser.h"
#include "core/data/tables/preparation.h"
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

TEST_CASE("a table: rows beyond those that were counted are refused, not written") {
  const TableRequest request = request_of_y(TargetUse::numbers);
  const std::string header = "x,kind,note,z,y\n";
  const TableColumns columns = find_table_columns(header + "1,b,,2,3\n", "t.csv", request);
  for (const char* row : {"1,b,,2,3\n", "1,\"b\",,2,3\n"}) {
    std::vector<float> numbers(3 * columns.row_numbers(), 7);
    std::vector<int32_t> codes(3 * columns.row_codes(), 7);
    const std::string text = std::string(row) + row + row;
    const TablePart part{.text = text, .line = 2, .records = 2};
    const PartMemory memory{.numbers = numbers.data(), .codes = codes.data()};
    CHECK_THROWS_WITH(PartParser(part, "t.csv", columns, request, memory).parse(),
                      "t.csv:4: the file changed while it was read");
    CHECK(numbers[2 * columns.row_numbers() - 1] == 3);
    CHECK(numbers[2 * columns.row_numbers()] == 7);
    CHECK(codes.back() == 7);
  }
}

TEST_CASE("a table: texts of rows that are left out are none of its texts") {
  const std::string first = "x,kind,note,z,y\n1,b,,2,3\n1,\xE4,,2,\n", second = "x,kind,note,z,y\n1,a,,2,3\n";
  const TableRequest request = request_of_y(TargetUse::numbers);
  for (const int64_t threads : {1, 2}) {
    const auto table = parse_table({{first, "a.csv"}, {second, "b.csv"}}, request, threads);
    CHECK(table->words == std::vector<std::vector<std::string>>{{"a", "b"}});
    CHECK(table->codes == LargeVector<int32_t>{1, 0});
  }
  const std::string latin = "x,kind,note,z,y\n1,\xE4,,2,3\n";
  CHECK_THROWS_WITH(parse_table({{first, "a.csv"}, {latin, "b.csv"}}, request, 1),
                    Catch::Matchers::StartsWith("b.csv: column 'kind'"));
}

TEST_CASE("a table of a trained network: another target or group that it reads is refused") {
  const std::string text = "x,kind,note,z,y\n1,b,,2,3\n4,a,,5,6\n";
  TableRequest request = request_of_y(TargetUse::numbers);
  const auto table = parse_table({{text, "t.csv"}}, request, 1);
  const std::vector<int64_t> rows = {0, 1};
  request.trained = std::make_shared<const TablePreparation>(prepare_table(*table, rows, request, 1));
  CHECK(parse_table({{text, "t.csv"}}, request, 1)->numbers == table->numbers);
  const auto error = [&](const TableRequest& changed) -> std::string {
    try {
      parse_table({{text, "t.csv"}}, changed, 1);
    } catch (const Error& refusal) {
      CHECK(refusal.code() == ExitCode::recipe);
      return refusal.what();
    }
    return "no error";
  };
  TableRequest changed = request;
  changed.keys.target = {"x"};
  CHECK_THAT(error(changed), Catch::Matchers::ContainsSubstring("was trained to read the column 'x'"));
  changed.keys.target = {"y", "note"};
  CHECK_THAT(error(changed), Catch::Matchers::ContainsSubstring("was trained with 1 target, got 2"));
  for (const char* group : {"z", "kind"}) {
    changed = request;
    changed.split_by = group;
    CHECK_THAT(error(changed), Catch::Matchers::ContainsSubstring("was trained to read the column"));
  }
}

TEST_CASE("a table: statistics and categories of more rows than one part, block and cache hold") {
  constexpr int64_t kRows = 50001, kWords = 5003;
  std::string text = "x,kind,note,z,y\n";
  const auto word = [](int64_t row) { return fmt::format("word {} of many", row * 7 % kWords); };
  double sum = 0, squares = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    text += fmt::format("{},{},,,{}\n", row % 1000, word(row), row);
    sum += static_cast<double>(row % 1000);
    squares += static_cast<double>(row % 1000) * static_cast<double>(row % 1000);
  }
  const TableRequest request = request_of_y(TargetUse::numbers);
  const double mean = sum / kRows;
  for (const int64_t threads : {1, 3}) {
    const auto table = parse_table({{text, "t.csv"}}, request, threads);
    REQUIRE(table->rows == kRows);
    REQUIRE(table->words[0].size() == kWords);
    bool are_right = true;
    for (int64_t row = 0; row < kRows; ++row)
      are_right = are_right && table->words[0][static_cast<size_t>(table->codes_of(row)[0])] == word(row);
    CHECK(are_right);
    std::vector<int64_t> rows(kRows);
    std::iota(rows.begin(), rows.end(), 0);
    const TablePreparation found = prepare_table(*table, rows, request, threads);
    CHECK_THAT(found.numbers[0].shift, Catch::Matchers::WithinRel(mean, 1e-12));
    CHECK_THAT(found.numbers[0].scale,
               Catch::Matchers::WithinRel(std::sqrt(squares / kRows - mean * mean), 1e-9));
    CHECK_THAT(found.targets[0].mean, Catch::Matchers::WithinRel((kRows - 1) / 2.0, 1e-12));
    CHECK(found.categories[0].texts.size() == kWords);
    CHECK(to_json(found) == to_json(prepare_table(*table, rows, request, 4)));
  }
}

}  // namespace
}  // namespace trainer
