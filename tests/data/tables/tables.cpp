// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/regular_file.h"
#include "core/data/formats.h"
#include "core/data/row_reader.h"
#include "core/data/tables/number.h"
#include "core/data/tables/source.h"
#include "core/data/tables/statistics.h"
#include "core/data/tables/table.h"
#include "core/data/tables/table_text.h"
#include "core/graph/names.h"
#include "tests/catch.h"
#include "tests/data/tables/read_sample.h"
#include "tests/data/tables/table_file.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("numbers: as Python's float reads them, without infinities") {
  const auto parsed = [](std::string_view text) {
    double number = 0;
    return parse_number(text, number) ? number : NAN;
  };
  for (const char* text :
       {"0", "7", "-7", "3.25", ".5", "5.", "-0.0", "123456789012345", "1234567890123456", "0.1", "1e3",
        "-2.5E-3", "179769313486231570000", "0.30000000000000004", "123456.789012345678", "00012"}) {
    INFO(text);
    CHECK(parsed(text) == std::stod(text));
    CHECK(parsed(std::string(" ") + text + "\t") == std::stod(text));
  }
  CHECK(parsed("+4") == 4);
  for (const char* text : {"", " ", "-", ".", "+", "1.2.3", "1e", "nan", "inf", "-inf", "1e400", "1,5",
                           "0x10", "1 2", "--1", "+-1", "++1", "1-", "- 1"}) {
    INFO(text);
    CHECK(std::isnan(parsed(text)));
  }
  for (const char* text : {"", "NA", "NaN", "nan", "null", "None", "#N/A", "<NA>"})
    CHECK(is_missing_value(text));
  for (const char* text : {"0", "na", "N", "none", "-", "?", "n"}) CHECK(!is_missing_value(text));
}

TEST_CASE("a table: columns with texts have categories, ascending; what is missing has none") {
  const TableFile file(
      "id;x;kind;y;note\r\n1;2,5;b;1;\"a;\"\"b\"\"\"\r\n\r\n2;;a;0;NA\r\n3; 7 ;;1;\"two\r\nlines\"\r\n");
  TableRequest request = request_for({"y"}, TargetUse::numbers);
  request.keys.ignore = {"id"};
  request.keys.categorical = {"auto", "x"};
  const auto table = file.read(request);
  CHECK(table->rows == 3);
  CHECK(table->columns.names(table->columns.categories) == std::vector<std::string>{"x", "kind", "note"});
  CHECK(table->columns.numbers.empty());
  CHECK(table->numbers == LargeVector<float>{1, 0, 1});
  using Words = std::vector<std::string>;
  CHECK(table->words == std::vector<Words>{{" 7 ", "2,5"}, {"a", "b"}, {"a;\"b\"", "two\r\nlines"}});
  CHECK(table->codes == LargeVector<int32_t>{1, 1, 0, -1, 0, -1, 0, -1, 1});
  CHECK(table->place_of(0).ends_with("t.csv:2"));
  CHECK(table->place_of(1).ends_with("t.csv:4"));
  CHECK(table->place_of(2).ends_with("t.csv:5"));
}

TEST_CASE("a table: a text after ten thousand rows of numbers is refused at its line") {
  std::string text = "x,y\n";
  for (int i = 0; i < 10000; ++i) text += "1,2\n";
  TableRequest request = request_for({"y"}, TargetUse::numbers);
  const TableFile file(text + "a,1\n");
  CHECK(file.error(request) ==
        "t.csv:10002: column 1 'x': expected a number as in the rows before (or name the column in "
        "data.table.categorical or ignore), found 'a'");
  request.keys.categorical = {"x"};
  CHECK(file.read(request)->rows == 10001);
}

TEST_CASE("a table: rows without a target are refused at their line, or left out and counted") {
  const TableFile file("a,y\n1,2\n3,\n\"4\",NA\n5,6\n");
  TableRequest request = request_for({"y"}, TargetUse::numbers);
  CHECK(file.error(request) ==
        "t.csv:3: column 2 'y': expected a target (data.table.empty_target: drop leaves "
        "such rows out), found ''");
  request.keys.empty_target = "drop";
  for (const TargetUse use : {TargetUse::numbers, TargetUse::classes}) {
    request.targets = use;
    const auto table = file.read(request);
    CHECK(table->rows == 2);
    CHECK(table->without_target == 2);
    CHECK(table->place_of(1).ends_with("t.csv:5"));
  }
  CHECK_THAT(TableFile("a,y\n1,\n").error(request), ContainsSubstring("expected rows after the header, found "
                                                                      "none with a target"));
}

TEST_CASE("a table: what is malformed is refused with file, line and column") {
  const TableRequest request = request_for({"y"}, TargetUse::numbers);
  CHECK(TableFile("a,y\n1,2\n3\n").error(request) == "t.csv:3: expected 2 fields as in the header, found 1");
  CHECK(TableFile("a,y\n1,2,3\n").error(request) == "t.csv:2: expected 2 fields as in the header, found 3");
  CHECK(TableFile("").error(request) ==
        "t.csv:1: expected a line with the names of the columns, found an empty file");
  CHECK_THAT(TableFile("1,2\n3,4\n").error(request),
             ContainsSubstring("t.csv:1: expected a line with the names"));
  CHECK_THAT(TableFile("a,y\n").error(request),
             ContainsSubstring("expected rows after the header, found none"));
  CHECK(TableFile("a,y\n1,2\n1e39,2\n").error(request) ==
        "t.csv:3: column 1 'a': expected a number that float32 holds, found '1e39'");
  CHECK_THAT(TableFile("a,y\n1,inf\n").error(request, ExitCode::recipe), ContainsSubstring("has texts"));
  CHECK_THAT(TableFile("PAR1xx").error(request), ContainsSubstring("pandas.read_parquet"));
  CHECK_THAT(TableFile(std::string("a,y\n1,\0\n", 8)).error(request), ContainsSubstring("a zero byte"));
  CHECK_THAT(TableFile("a,y\nSm\xF8r,2\n").error(request),
             ContainsSubstring("column 'a': 'Sm") && ContainsSubstring("is not UTF-8"));
  CHECK_THAT(TableFile("a,y\n\"x,2\n").error(request),
             ContainsSubstring("t.csv:2: a quoted field that does not end"));
}

TEST_CASE("a table: keys that name no column are refused where they stand") {
  const TableFile file("age,age2,,y,y2,y2\n1,2,3,4,5,6\n");
  const auto error = [&](const TableRequest& request) { return file.error(request, ExitCode::recipe); };
  CHECK_THAT(error(request_for({"yy"}, TargetUse::numbers)),
             ContainsSubstring("data.table.target: there is no column 'yy' in " + file.path +
                               ": did you mean 'y'?; it has 'age', 'age2', '', 'y', 'y2', 'y2'"));
  CHECK_THAT(error(request_for({"y2"}, TargetUse::numbers)),
             ContainsSubstring("has two columns 'y2'; rename one"));
  CHECK_THAT(error(request_for({"y", "y"}, TargetUse::numbers)), ContainsSubstring("named twice"));
  CHECK_THAT(error(request_for({"age", "y"}, TargetUse::classes)),
             ContainsSubstring("expected one column of classes"));
  TableRequest request = request_for({"y"}, TargetUse::numbers);
  CHECK_THAT(error(request),
             ContainsSubstring("column 3 of") && ContainsSubstring("has no name in the header"));
  request.keys.ignore = {"a"};
  CHECK_THAT(error(request), ContainsSubstring("data.table.ignore: there is no column 'a'"));
  request.keys.ignore = {""};
  CHECK_THAT(error(request), ContainsSubstring("must be the name of a column, got ''"));
  request.split_by = "y";
  request.keys.ignore = {};
  CHECK_THAT(error(request), ContainsSubstring("data.split_by: names the target"));
}

TEST_CASE("a table: any number of threads reads the same, also records with line breaks at the borders") {
  std::string text = "x,text,y\n";
  for (int i = 0; i < 40000; ++i) {
    text += std::to_string(i * 0.37) + ",";
    text +=
        i % 3 == 0 ? "plain" + std::to_string(i % 17) : "\"line\n" + std::string(i % 200, '.') + "\"\"\n,\"";
    text += "," + std::to_string(i % 7) + (i % 5 == 0 ? "\r\n" : "\n");
  }
  const TableFile file(text);
  CHECK(divide_table(text, 4).size() == 3);
  int64_t line = 2, records = 0;
  for (const TablePart& part : divide_table(text, 4)) {
    CHECK(part.line == line);
    line += std::count(part.text.begin(), part.text.end(), '\n');
    records += part.records;
  }
  CHECK(records >= 40000);
  const TableRequest request = request_for({"y"}, TargetUse::classes);
  const auto one = file.read(request, 1), many = file.read(request, 4);
  CHECK(one->rows == 40000);
  CHECK(many->numbers == one->numbers);
  CHECK(many->codes == one->codes);
  CHECK(many->words == one->words);
  text.replace(text.rfind("plain"), 5, "pla\"n");
  const TableFile bad(text);
  CHECK_THROWS_WITH(bad.read(request, 4), ContainsSubstring(":79980: a quote within a field") ||
                                              ContainsSubstring("a quote within a field"));
}

TEST_CASE("a table: files of a pattern are read one after another if their columns are the same") {
  const test::ScratchDirectory directory;
  const auto write = [&](const char* name, const char* text) {
    std::ofstream(directory.path() / name) << text;
    return (directory.path() / name).string();
  };
  const std::vector<std::string> files = {write("a.csv", "x,k,y\n1,a,1\n2,b,2\n"),
                                          write("b.csv", "x,k,y\n3,c,3\n")};
  const TableRequest request = request_for({"y"}, TargetUse::numbers);
  const auto table = read_table(files, request, 2);
  CHECK(table->numbers == LargeVector<float>{1, 1, 2, 2, 3, 3});
  CHECK(table->words == std::vector<std::vector<std::string>>{{"a", "b", "c"}});
  CHECK(table->place_of(2).ends_with("b.csv:2"));
  for (const auto& [text, problem] :
       {std::pair{"x,z,y\n", "column 2 is 'k' there, and 'z' here"},
        std::pair{"x,k\n", "expected the 3 columns of"}, std::pair{"", "expected the 3 columns of"}}) {
    CHECK_THROWS_WITH(read_table({files[0], write("c.csv", text)}, request, 1), ContainsSubstring(problem));
  }
}

TEST_CASE("a preparation comes back from its JSON; another text is none") {
  const TableFile file("x,k,y,z\n1,a,1,4\n,b,2,3\n3,a,9,2\n");
  for (const TargetUse use : {TargetUse::numbers, TargetUse::classes}) {
    TableRequest request = request_for({"y"}, use);
    request.keys.clip = 0.1;
    const auto table = file.read(request);
    const std::vector<int64_t> rows = {0, 1, 2};
    const std::string text = to_json(prepare_table(*table, rows, request, 1));
    const auto back = parse_preparation(text);
    REQUIRE(back);
    CHECK(to_json(*back) == text);
  }
  for (const char* text : {"", "{}", "[]", "null", R"({"numbers": []})"}) CHECK(!parse_preparation(text));
}

/// Rows as batches have them, one after another.
ReadSample read_rows(const TableSource& source) {
  ReadSample all;
  for (int64_t i = 0; i < source.size(); ++i) {
    const ReadSample row = read_sample(source, i);
    all.numbers.insert(all.numbers.end(), row.numbers.begin(), row.numbers.end());
    all.categories.insert(all.categories.end(), row.categories.begin(), row.categories.end());
  }
  return all;
}

TEST_CASE("prepared rows are scikit-learn's, for each way to fill, scale and clip") {
  const std::string folder = std::string(TRAINER_SOURCE_DIR) + "/tests/fixtures/tables/";
  const Json expected = Json::parse_or_null(read_text(folder + "expected.json").value());
  for (const Json& each : expected["statistics"].items()) {
    TableRequest request = request_for({"spent"}, TargetUse::numbers);
    request.keys.ignore = {"row", "visits"};
    request.keys.missing = each["missing"].text();
    request.keys.scale = each["scale"].text();
    request.keys.clip = each["clip"].number();
    const auto train = read_table({folder + "train.csv"}, request, 1);
    std::vector<int64_t> rows(static_cast<size_t>(train->rows));
    std::iota(rows.begin(), rows.end(), 0);
    request.trained = std::make_shared<const TablePreparation>(prepare_table(*train, rows, request, 2));
    const auto val = read_table({folder + "val.csv"}, request, 1);
    CHECK(request.trained->category_rows() == expected["category_rows"].number());
    ReadSample found = read_rows(*table_source(train, request.trained, {.rows = rows}));
    rows.resize(static_cast<size_t>(val->rows));
    const ReadSample of_val = read_rows(*table_source(val, request.trained, {.rows = rows}));
    found.numbers.insert(found.numbers.end(), of_val.numbers.begin(), of_val.numbers.end());
    found.categories.insert(found.categories.end(), of_val.categories.begin(), of_val.categories.end());
    size_t i = 0;
    double worst = 0;
    for (const Json& row : each["rows"].items()) {
      for (const Json& value : row.items()) {
        const double wanted = value.number(), difference = std::abs(found.numbers.at(i++) - wanted);
        worst = std::max(worst, difference / std::max(1.0, std::abs(wanted)));
      }
    }
    INFO(each.dump().substr(0, 80));
    CHECK(i == found.numbers.size());
    CHECK(worst < 1e-6);
    i = 0;
    for (const Json& row : expected["codes"].items())
      for (const Json& code : row.items()) CHECK(found.categories.at(i++) == code.number());
    CHECK(i == found.categories.size());
  }
}

TEST_CASE("statistics and categories come from the rows of training alone") {
  const TableFile file("x,k,y\n1,a,1\n3,b,2\n100,zz,50\n");
  const TableRequest request = request_for({"y"}, TargetUse::numbers);
  const auto table = file.read(request);
  const std::vector<int64_t> training = {0, 1};
  const auto how = std::make_shared<const TablePreparation>(prepare_table(*table, training, request, 1));
  CHECK(how->numbers[0].shift == 2);
  CHECK(how->numbers[0].scale == 1);
  CHECK(how->categories[0].texts == std::vector<std::string>{"a", "b"});
  CHECK(how->category_rows() == 3);
  CHECK(how->targets[0].mean == 1.5);
  const auto source = table_source(table, how, {.rows = {2}});
  CHECK(source->size() == 1);
  const std::vector<ColumnStatistics> columns = measure_columns(*source);
  REQUIRE(columns.size() == 3);
  CHECK(columns[0].use == "number");
  CHECK(columns[1].texts == std::vector<std::pair<std::string, int64_t>>{{"zz", 1}});
  CHECK(columns[2].use == "target");
}

TEST_CASE("with a part of the training rows for validation, statistics and categories leave it out") {
  std::string text = "x,k,y\n";
  for (int i = 0; i < 40; ++i)
    text += std::to_string(i * i) + ",k" + std::to_string(i) + "," + std::to_string(i) + "\n";
  const TableFile file(text);
  const TableRequest want = request_for({"y"}, TargetUse::numbers);
  const auto table = file.read(want);
  for (const bool folds : {false, true}) {
    Fields fields;
    DataSection section;
    section.declare(fields);
    Diagnostics diagnostics;
    const std::string recipe = "format: table\ntrain: " + file.path + "\ntable: {target: y}\n" +
                               (folds ? "fold: {of: 4, index: 1}\n" : "val_fraction: 0.3\n");
    fields.read(parse_yaml(recipe, "r.yaml", diagnostics), "data", diagnostics);
    diagnostics.throw_if_any();
    SourceRequest request{.wants_numbers = true, .seed = 5, .network_kind = InputKind::features};
    const auto open = [&](Split split) {
      request.split = split;
      return open_stored(section, request);
    };
    const auto train = open(Split::train), val = open(Split::val);
    CHECK(train->size() + val->size() == 40);
    const auto& rows = dynamic_cast<const TableSource&>(*train);
    const std::vector<int64_t>& training = rows.samples().rows;
    const std::string expected = to_json(prepare_table(*table, training, want, 1));
    CHECK(train->preparation() == expected);
    CHECK(val->preparation() == expected);
    // Each row has a text of its own, so validation's are unknown to training.
    const ReadSample of_val = read_rows(dynamic_cast<const TableSource&>(*val));
    CHECK(std::ranges::all_of(of_val.categories, [](int32_t code) { return code == 0; }));
  }
}

TEST_CASE("data.table.missing: error refuses a missing number at its row, in training and later") {
  const TableFile file("x,y\n1,1\n2,2\nNA,3\n");
  TableRequest request = request_for({"y"}, TargetUse::numbers);
  request.keys.missing = "error";
  const auto table = file.read(request);
  const std::vector<int64_t> training = {0, 1};
  const auto how = std::make_shared<const TablePreparation>(prepare_table(*table, training, request, 1));
  CHECK(table_source(table, how, {.rows = training})->size() == 2);
  CHECK_THROWS_WITH(
      table_source(table, how, {.rows = {1, 2}}),
      ContainsSubstring("t.csv:4: column 'x': expected a number, as data.table.missing is error"));
}

TEST_CASE("a class that no row of training has is refused at its row") {
  const TableFile file("x,y\n1,no\n2,yes\n3,maybe\n");
  const TableRequest request = request_for({"y"}, TargetUse::classes);
  const auto table = file.read(request);
  const std::vector<int64_t> training = {0, 1};
  const auto how = std::make_shared<const TablePreparation>(prepare_table(*table, training, request, 1));
  CHECK(table_source(table, how, {.rows = {1, 0}})->label(0) == 1);
  CHECK_THROWS_WITH(table_source(table, how, {.rows = {0, 2}}),
                    ContainsSubstring("t.csv:4: column 'y': no row of training has the class 'maybe'"));
}

TEST_CASE("numbers are classes in their own order") {
  const TableFile file("x,y\n1,10\n2,9\n3,-1\n4,100\n");
  const TableRequest request = request_for({"y"}, TargetUse::classes);
  const auto table = file.read(request);
  const std::vector<int64_t> rows = {0, 1, 2, 3};
  CHECK(prepare_table(*table, rows, request, 1).classes == std::vector<std::string>{"-1", "9", "10", "100"});
}

}  // namespace
}  // namespace trainer
