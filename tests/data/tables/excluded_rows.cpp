// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/data/formats.h"
#include "core/data/tables/source.h"
#include "tests/catch.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Values = std::multiset<float>;

/// Forty rows for training and four for validation, whose x is 0 to 43.
class TwoTables {
 public:
  TwoTables() {
    write("train.csv", 0, 40);
    write("val.csv", 40, 44);
  }
  DataSection section(const std::string& keys, const std::string& exclude) const {
    Fields fields;
    DataSection section;
    section.declare(fields);
    Diagnostics diagnostics;
    std::string recipe = "format: table\ntrain: " + path("train.csv") + "\ntable: {target: y}\n" + keys;
    if (!exclude.empty()) {
      std::ofstream(path("x.txt")) << exclude;
      recipe += "exclude: " + path("x.txt") + "\n";
    }
    fields.read(parse_yaml(recipe, "r.yaml", diagnostics), "data", diagnostics);
    diagnostics.throw_if_any();
    return section;
  }
  std::string path(const std::string& name) const { return (directory_.path() / name).string(); }

 private:
  void write(const std::string& name, int begin, int end) const {
    std::ofstream file(path(name));
    file << "id,x,y\n";
    for (int i = begin; i < end; ++i) file << "r" << i << "," << i << "," << i * i << "\n";
  }
  test::ScratchDirectory directory_;
};

SourceRequest for_split(Split split) {
  return {.split = split, .wants_numbers = true, .seed = 5, .network_kind = InputKind::features};
}

Values values_of(const DataSource& source) {
  const auto& rows = dynamic_cast<const TableSource&>(source);
  Values values;
  for (int64_t i = 0; i < rows.size(); ++i)
    values.insert(rows.table().numbers_of(rows.samples().first_row(i))[0]);
  return values;
}

/// As planning and training see them, which must agree.
Values values_in(const DataSection& section, Split split) {
  const auto source = open_stored(section, for_split(split));
  const auto info = peek_source(section, for_split(split));
  REQUIRE(info);
  CHECK(info->size == source->size());
  CHECK(info->resident_bytes == source->resident_bytes());
  return values_of(*source);
}

TEST_CASE("excluded rows are in no split, no statistic and no category; the others stay on their side") {
  const TwoTables tables;
  for (const std::string part : {"val_fraction: 0.25\n", "fold: {of: 4, index: 2}\n"}) {
    const std::string lines = "train train.csv:41\ntrain id=r3\n# and\ntrain id=r20\n";
    const DataSection all = tables.section(part, ""), fewer = tables.section(part, lines),
                      val_first = tables.section(part, lines);
    Values left;
    for (const Split split : {Split::train, Split::val}) {
      Values expected = values_in(all, split);
      for (const float out : {39.0f, 3.0f, 20.0f}) expected.erase(out);
      const Values found = values_in(fewer, split);
      CHECK(found == expected);
      left.insert(found.begin(), found.end());
    }
    CHECK(left.size() == 37);
    const auto source = open_stored(val_first, for_split(Split::val));
    const TablePreparation& how = dynamic_cast<const TableSource&>(*source).how();
    const Values training = values_in(fewer, Split::train);
    double sum = 0;
    for (const float value : training) sum += value;
    CHECK(how.numbers[0].shift == Approx(sum / static_cast<double>(training.size())));
    CHECK(how.categories[0].texts.size() == training.size());
    CHECK(std::ranges::find(how.categories[0].texts, "r39") == how.categories[0].texts.end());
  }
}

TEST_CASE("excluded rows of a file for validation are named in it, and change the fingerprint") {
  const TwoTables tables;
  const std::string val = "val: " + tables.path("val.csv") + "\n";
  CHECK(values_in(tables.section(val, "val val.csv:3\ntrain id=r1\n"), Split::val) == Values{40, 42, 43});
  CHECK(values_in(tables.section(val, "val val.csv:3\ntrain id=r1\n"), Split::train).size() == 39);
  const auto fingerprint = [&](const std::string& exclude, Split split) {
    return open_stored(tables.section(val, exclude), for_split(split))->fingerprint();
  };
  const Fingerprint before = fingerprint("", Split::val), after = fingerprint("val val.csv:3\n", Split::val);
  CHECK(fingerprint_difference(before, after) == "4 samples there and 3 here");
  CHECK(fingerprint_difference(after, fingerprint("val val.csv:4\n", Split::val)) ==
        "other excluded samples (data.exclude)");
  CHECK(fingerprint_difference(after, fingerprint("val id=r41\n", Split::val)) == std::nullopt);
  CHECK(before == fingerprint("# none\n", Split::val));
}

TEST_CASE("a line of data.exclude that names no row, or one again, is refused") {
  const TwoTables tables;
  const std::string val = "val: " + tables.path("val.csv") + "\n";
  const auto refused = [&](const std::string& keys, const std::string& lines, const std::string& message) {
    INFO(lines);
    try {
      open_stored(tables.section(keys, lines), for_split(Split::train));
      FAIL_CHECK("is not refused");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::data);
      CHECK_THAT(error.what(), ContainsSubstring(message));
    }
  };
  refused(
      val, "train id=r1\ntrain train.csv:1\n",
      "x.txt:2: there is no sample 'train.csv:1' in data.train: expected train.csv:LINE, the line on which "
      "a row begins, or COLUMN=TEXT, its text in a column");
  refused(val, "train r3\n", "x.txt:1: there is no sample 'r3'");
  refused(val, "train 3\n", "x.txt:1: there is no sample '3'");
  refused(val, "train id=r40\n", "x.txt:1: there is no sample 'id=r40' in data.train");
  refused(val, "train id=r3\n\ntrain train.csv:5\n", "x.txt:3: 'train.csv:5' is named in line 1 already");
  refused("val_fraction: 0.25\n", "val id=r3\n", "x.txt:1: with data.val_fraction or data.fold");
  refused("fold: {of: 4, index: 0}\n", "val id=r3\n", "x.txt:1: with data.val_fraction or data.fold");
  std::string all;
  for (int i = 0; i < 40; ++i) all += "train id=r" + std::to_string(i) + "\n";
  refused(val, all, "x.txt (data.exclude) leaves no sample for training");
}

}  // namespace
}  // namespace trainer
