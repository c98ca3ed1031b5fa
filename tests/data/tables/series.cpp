// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/regular_file.h"
#include "core/data/formats.h"
#include "core/data/row_reader.h"
#include "core/data/tables/repetition.h"
#include "core/data/tables/source.h"
#include "core/data/tables/statistics.h"
#include "core/data/tables/window.h"
#include "core/graph/names.h"
#include "tests/catch.h"
#include "tests/data/tables/read_sample.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;

/// A recipe's section `data` of a table, and the file.
struct SeriesData {
  /// `keys` are those of `data.table`, `more` those beside it.
  SeriesData(const std::string& text, const std::string& keys, const std::string& more = "")
      : path((directory.path() / "s.csv").string()) {
    std::ofstream(path, std::ios::binary) << text;
    Fields fields;
    section.declare(fields);
    Diagnostics diagnostics;
    const std::string recipe =
        "format: table\ntrain: " + path + "\ntable: {target: y, " + keys + "}\n" + more;
    fields.read(parse_yaml(recipe, "r.yaml", diagnostics), "data", diagnostics);
    diagnostics.throw_if_any();
  }
  std::unique_ptr<TableSource> open(Split split = Split::train) const {
    request.split = split;
    auto source = open_stored(section, request);
    return std::unique_ptr<TableSource>(dynamic_cast<TableSource*>(source.release()));
  }
  /// The message of the error, which has exit code 65, after the folder.
  std::string error() const {
    try {
      open();
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::data);
      const std::string text = error.what(), folder = directory.path().string() + "/";
      return text.starts_with(folder) ? text.substr(folder.size()) : text;
    }
    return "";
  }

  test::ScratchDirectory directory;
  std::string path;
  DataSection section;
  mutable SourceRequest request{.wants_numbers = true, .network_kind = InputKind::series};
};

TEST_CASE("times: dates of ISO 8601 in UTC, and nothing else") {
  const auto seconds = [](std::string_view text) { return parse_date(text).value_or(NAN); };
  CHECK(seconds("1970-01-01") == 0);
  CHECK(seconds("1969-12-31T23:59:59") == -1);
  CHECK(seconds("2013-01") == seconds("2013-01-01"));
  CHECK(seconds("2013-01-05") == 1357344000);
  CHECK(seconds("2013-01-05T14:00") == 1357344000 + 14 * 3600);
  CHECK(seconds("2013-01-05 14:00:00Z") == seconds("2013-01-05T14:00"));
  CHECK(seconds("2013-01-05T14:00:30.5+01:30") == seconds("2013-01-05T12:30") + 30.5);
  CHECK(seconds("2013-01-05T14:00-0500") == seconds("2013-01-05T19:00"));
  CHECK(seconds("2013-01-05T14:00+02") == seconds("2013-01-05T12:00"));
  CHECK(seconds("2012-02-29") == seconds("2012-02-28") + 86400);
  for (const char* text : {"",
                           "2013",
                           "2013-1-5",
                           "2013-13-01",
                           "2013-02-29",
                           "2013-01-00",
                           "13-01-05",
                           "05.01.2013",
                           "2013-01-05T",
                           "2013-01-05T24:00",
                           "2013-01-05T14",
                           "2013-01-05T14:60",
                           "2013-01-05T14:00:",
                           "2013-01-05T14:00:00.",
                           "2013-01-05T14:00ZZ",
                           "2013-01-05T14:00+",
                           "2013-01-05T14:00+1",
                           "2013-01-05x",
                           "2013-01-05 ",
                           "NA"}) {
    INFO(text);
    CHECK(!parse_date(text));
  }
  for (const char* text : {"2013-01-05", "2013-01-05T14:00:00", "0001-01-01", "1912-02-29T23:59:59.250000"})
    CHECK(time_text(seconds(text), TimeForm::date) == text);
  CHECK(time_text(0.25, TimeForm::number) == "0.25");
}

TEST_CASE("times: the step is the most frequent one, in months where dates are at one day of them") {
  const auto step_of = [](const std::vector<std::string>& dates) {
    std::vector<double> times;
    for (const std::string& date : dates) times.push_back(parse_date(date).value());
    const std::vector<int64_t> ends = {static_cast<int64_t>(times.size())};
    return commonest_step(times, ends, TimeForm::date);
  };
  CHECK(step_of({"2013-01-01", "2013-01-02", "2013-01-03", "2013-01-05"}).text() == "1 d");
  CHECK(step_of({"2013-01-01T00:00", "2013-01-01T00:30", "2013-01-01T01:00"}).text() == "30 min");
  CHECK(step_of({"2013-01-31", "2013-02-28", "2013-03-31", "2013-04-30"}).text() == "1 month");
  const TimeStep quarter = step_of({"2012-10", "2013-01", "2013-04", "2013-10"});
  CHECK(quarter.text() == "3 months");
  const auto leads = [&](const char* before, const char* after) {
    return quarter.leads(parse_date(before).value(), parse_date(after).value());
  };
  CHECK(leads("2013-11-15", "2014-02-15"));
  CHECK(leads("2013-11-30", "2014-02-28"));
  CHECK(!leads("2013-11-15", "2014-02-16"));
  CHECK(!leads("2013-11-15", "2014-02-15T01:00"));
  CHECK(!leads("2013-11-15", "2014-03-15"));
  // Of equally frequent ones the smallest; a step of numbers has rounding errors.
  const std::vector<double> numbers = {0, 2, 3, 0.1, 0.2, 0.30000000000000004, 0.4};
  CHECK(commonest_step(numbers, std::vector<int64_t>{3}, TimeForm::number).size == 1);
  const TimeStep tenth = commonest_step(numbers, std::vector<int64_t>{3, 7}, TimeForm::number);
  CHECK_THAT(tenth.size, WithinRel(0.1, 1e-9));
  CHECK(tenth.leads(0.2, 0.30000000000000004));
  CHECK(!tenth.leads(0.2, 0.4));
}

TEST_CASE("series: rows are in the order of series and time, and their places are those in the file") {
  const SeriesData data(
      "t,k,n,y,who\n3,b,1,30,u\n1,b,1,10,v\n2,a,2,200,u\n2,b,1,20,w\n1,a,2,100,w\n3,a,2,300,v\n",
      "window: {time: t, by: [k, n], length: 2}");
  const auto source = data.open();
  const Table& table = source->table();
  CHECK(table.times == std::vector<double>{1, 2, 3, 1, 2, 3});
  CHECK(table.series_ends == std::vector<int64_t>{3, 6});
  CHECK(table.columns.names(table.columns.numbers) == std::vector<std::string>{"y"});
  CHECK(table.columns.names(table.columns.categories) == std::vector<std::string>{"who"});
  CHECK(table.numbers == LargeVector<float>{100, 100, 200, 200, 300, 300, 10, 10, 20, 20, 30, 30});
  CHECK(table.series_name(3) == "b, 1");
  CHECK(table.place_of(0).ends_with("s.csv:6"));
  CHECK(table.place_of(5).ends_with("s.csv:2"));
  REQUIRE(source->size() == 2);
  CHECK(source->sample_shape() == Shape{2, 1});
  using Names = std::vector<std::pair<std::string, std::string>>;
  CHECK(source->names(1) == Names{{"time", "2"}, {"by", "b, 1"}});
  // The categories are the last row's, the target is that of the row after.
  const TablePreparation& how = source->how();
  const ReadSample sample = read_sample(*source, 1);
  const auto scaled = [&](float value) { return how.numbers[0].of(value); };
  CHECK(sample.numbers == std::vector<float>{scaled(10), scaled(20)});
  CHECK(sample.categories == std::vector<int32_t>{3});  // u, v, w after what is missing
  CHECK_THAT(sample.targets.at(0), WithinRel((30 - how.targets[0].mean) / how.targets[0].deviation, 1e-6));
}

TEST_CASE("series: a column that names series can be a category too") {
  const std::string rows = "t,k,y\n1,b,1\n2,b,2\n1,a,3\n2,a,4\n";
  const SeriesData data(rows, "categorical: [k], window: {time: t, by: k, length: 1}");
  const auto source = data.open();
  CHECK(source->table().columns.names(source->table().columns.categories) == std::vector<std::string>{"k"});
  CHECK(read_sample(*source, 0).categories == std::vector<int32_t>{1});
  CHECK(read_sample(*source, 1).categories == std::vector<int32_t>{2});
}

TEST_CASE("series: what cannot be read is refused at its line and column") {
  const auto error = [](const std::string& text) {
    return SeriesData(text, "window: {time: t, by: k, length: 1}").error();
  };
  CHECK(error("t,k,y\n2013-01-05,a,1\nsoon,a,2\n") ==
        "s.csv:3: column 1 't': expected a date such as 2013-01-05 or 2013-01-05T14:00, or a number in each "
        "row, "
        "found 'soon'");
  CHECK(error("t,k,y\n2013-01-05,a,1\n7,a,2\n").starts_with("s.csv:3: column 1 't': expected a date"));
  CHECK(error("t,k,y\n1,a,1\n,a,2\n") ==
        "s.csv:3: column 1 't': expected a time: a number as in the rows before, found ''");
  CHECK(error("t,k,y\n1,a,1\n2,NA,2\n") ==
        "s.csv:3: column 2 'k': expected the name of a series, found 'NA'");
  CHECK(error("t,k,y\n1,a,1\n1,b,2\n2,a,3\n1,a,4\n")
            .starts_with(
                "s.csv:5: column 't': expected a time that its series 'a' has once, found 1 also at "));
  CHECK_THAT(error("t,k,y\n1,a,1\n1,b,2\n2,a,3\n1,a,4\n"),
             ContainsSubstring("s.csv:2; name the columns that tell series apart in data.table.window.by"));
  CHECK_THAT(
      error("t,k,y\n1,a,1\n1,b,2\n"),
      ContainsSubstring("expected a window of 1 rows and a target 1 rows later, each 1 after the other by "
                        "column 't', found none in 2 series, of at most 1 rows"));
  const auto place = [](const std::string& keys) {
    return SeriesData("t,k,y\n1,a,1\n2,a,2\n", "window: {" + keys + ", length: 1}");
  };
  CHECK_THROWS_WITH(place("time: tt").open(), ContainsSubstring("there is no column 'tt'"));
  CHECK_THROWS_WITH(place("time: y").open(), ContainsSubstring("the column 'y' is the target"));
  CHECK_THROWS_WITH(place("time: t, by: t").open(), ContainsSubstring("the column 't' is that of the times"));
}

TEST_CASE("series: missing: previous takes the value before, in its own series, and never for a target") {
  const SeriesData data("t,k,x,y\n1,a,,1\n2,a,5,2\n3,a,NA,\n4,a,,4\n1,b,,6\n2,b,7,8\n",
                        "missing: previous, window: {time: t, by: k, length: 2}");
  const auto source = data.open();
  const Table& table = source->table();
  const float none = table.numbers[0];
  CHECK(none != none);
  std::vector<float> x;
  for (int64_t row = 1; row < table.rows; ++row) x.push_back(table.numbers_of(row)[0]);
  CHECK(std::vector<float>(x.begin(), x.begin() + 3) == std::vector<float>{5, 5, 5});
  CHECK(x[3] != x[3]);
  CHECK(x[4] == 7);
  // Past targets are filled, targets are not: the window before row 3 of series a is left out.
  CHECK(table.numbers_of(2)[1] == 2);
  CHECK(source->samples().windows->without_target == 1);
  CHECK(source->samples().windows->first == std::vector<int64_t>{1});
  // A beginning without a value has the mean, here of 5, 5, 5 and 7.
  CHECK(source->how().numbers[0].fill == 5.5);
  const std::vector<ColumnStatistics> columns = measure_columns(*source);
  REQUIRE(columns.size() == 4);
  CHECK(columns[0].use == "time");
  CHECK(columns[0].last == "4");
  CHECK(columns[1].use == "series");
  CHECK(columns[2].missing == 4);
  CHECK(columns[3].missing == 1);
}

TEST_CASE("series: windows of CO2, values and the error of repetition are those of pandas") {
  const std::string folder = std::string(TRAINER_SOURCE_DIR) + "/tests/fixtures/series/";
  const Json expected = Json::parse_or_null(read_text(folder + "expected.json").value());
  const std::string all = read_text(folder + "co2.csv").value();
  std::string without_empty;
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    end = all.find('\n', begin) + 1;
    if (all[end - 2] != ',') without_empty += all.substr(begin, end - begin);
  }
  size_t compared = 0;
  for (const auto& [name, text] : {std::pair("all", all), std::pair("without_empty", without_empty)}) {
    const std::vector<Json>& cases = expected[name].items();
    for (const Json& each : cases) {
      const auto value = [&](const char* key) { return std::to_string(std::lround(each[key].number())); };
      const std::string header = "date,y" + text.substr(text.find('\n'));
      const SeriesData data(header,
                            "missing: previous, window: {time: date, length: " + value("length") +
                                ", horizon: " + value("horizon") + ", stride: " + value("stride") + "}",
                            "val_fraction: " + std::to_string(each["fraction"].number()) + "\n");
      for (const Split split : {Split::train, Split::val}) {
        const Json& wanted = each[split == Split::train ? "train" : "val"];
        const auto source = data.open(split);
        const Windows& windows = *source->samples().windows;
        INFO(name << " " << each.dump().substr(0, 80));
        CHECK(windows.step.text() == "7 d");
        CHECK(static_cast<double>(source->size()) == wanted["windows"].number());
        CHECK(static_cast<double>(windows.across_gaps) == wanted["across_gaps"].number());
        CHECK(static_cast<double>(windows.without_target) == wanted["without_target"].number());
        double mae = 0, rmse = 0;
        REQUIRE(std::sscanf(repetition_text(*source).c_str(), "mae %lf, rmse %lf", &mae, &rmse) == 2);
        CHECK_THAT(mae, WithinRel(wanted["mae"].number(), 1e-5));
        CHECK_THAT(rmse, WithinRel(wanted["rmse"].number(), 1e-5));
        for (const auto& [key, sample] : {std::pair("first", int64_t{0}), {"last", source->size() - 1}}) {
          const std::vector<float> numbers = read_sample(*source, sample).numbers;
          REQUIRE(numbers.size() == wanted[key].items().size());
          for (size_t i = 0; i < numbers.size(); ++i)
            CHECK_THAT(numbers[i], WithinAbs(wanted[key].items()[i].number(), 1e-5));
        }
        ++compared;
      }
    }
  }
  CHECK(compared == 96);
}

TEST_CASE("series: validation is the end of each series, and has no row in common with training") {
  std::string text = "t,k,x,y\n";
  for (int i = 0; i < 40; ++i) {
    const std::string value = std::to_string(i < 24 ? i : 1000 + i);  // of a's end, another scale
    text.append(std::to_string(i)).append(",a,").append(value).append(",").append(value).append("\n");
    if (i < 10) text.append(std::to_string(i)).append(",b,0,0\n");
  }
  const SeriesData data(text, "window: {time: t, by: k, length: 3, horizon: 2}", "val_fraction: 0.4\n");
  const auto train = data.open(Split::train), val = data.open(Split::val);
  const auto read_by = [](const TableSource& source) {
    std::set<int64_t> rows;
    for (int64_t i = 0; i < source.size(); ++i) {
      for (int64_t row = source.samples().first_row(i); row <= source.samples().last_row(i); ++row)
        rows.insert(row);
      rows.insert(source.samples().target_row(i));
    }
    return rows;
  };
  const std::set<int64_t> training = read_by(*train), validation = read_by(*val);
  CHECK(training.size() == 30);
  CHECK(*training.rbegin() == 45);
  CHECK(validation.size() == 16);  // those of b are too few for a window
  CHECK(*validation.begin() == 24);
  CHECK(train->size() == 20 + 2);
  CHECK(val->size() == 12);
  // Statistics are those of the rows before.
  CHECK_THAT(train->how().numbers[0].shift, WithinRel(276.0 / 30, 1e-9));
  CHECK_THAT(train->how().targets[0].mean, WithinRel(276.0 / 30, 1e-9));
  CHECK(val->preparation() == train->preparation());
  const auto back = parse_preparation(train->preparation());
  REQUIRE(back);
  REQUIRE(back->step);
  CHECK(back->step->size == 1);
  CHECK(to_json(*back) == train->preparation());
}

TEST_CASE("series: classes are those after the window, and repetition counts those that stay") {
  const SeriesData data("t,x,y\n1,0,a\n2,0,a\n3,1,b\n4,1,b\n5,1,\n6,0,a\n", "window: {time: t, length: 2}");
  data.request.wants_numbers = false;
  data.request.network_classes = 2;
  const auto source = data.open();
  CHECK(source->samples().windows->first == std::vector<int64_t>{0, 1, 3});
  CHECK(source->samples().windows->without_target == 1);
  CHECK(source->label(0) == 1);
  CHECK(source->label(1) == 1);
  CHECK(source->label(2) == 0);
  CHECK(repetition_text(*source) == "top1 0.3333");
  CHECK(source->sample_shape() == Shape{2, 1});
}

}  // namespace
}  // namespace trainer
