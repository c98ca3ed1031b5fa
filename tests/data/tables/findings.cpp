// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/findings.h"

#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "core/data/tables/column_values.h"
#include "core/data/tables/source.h"
#include "tests/catch.h"
#include "tests/data/tables/table_file.h"

namespace trainer {
namespace {

using Groups = std::vector<std::vector<size_t>>;

/// The columns of one or several tables with these texts.
std::vector<ColumnValues> columns_of(const std::vector<std::string>& texts, const TableRequest& given) {
  TableRequest request = given;
  std::vector<std::unique_ptr<TableSource>> sources;
  std::vector<const TableSource*> parts;
  for (const std::string& text : texts) {
    const auto table = parse_table({{text, "t.csv"}}, request, 1);
    std::vector<int64_t> rows(static_cast<size_t>(table->rows));
    std::iota(rows.begin(), rows.end(), 0);
    if (!request.trained)
      request.trained = std::make_shared<const TablePreparation>(prepare_table(*table, rows, request, 1));
    sources.push_back(table_source(table, request.trained, {.rows = rows}));
    parts.push_back(sources.back().get());
  }
  return column_values(parts);
}

Groups groups_of(const std::vector<ColumnValues>& columns) {
  std::vector<const ColumnValues*> all;
  for (const ColumnValues& column : columns) all.push_back(&column);
  return equal_rows(all);
}

/// A table of this many rows; the columns are named c0, c1 and so on, the last one y.
std::string made_table(int rows, const std::vector<std::function<std::string(int)>>& columns) {
  std::string text;
  for (size_t c = 0; c < columns.size(); ++c)
    text += c + 1 == columns.size() ? "y\n" : "c" + std::to_string(c) + ",";
  for (int row = 0; row < rows; ++row) {
    for (size_t c = 0; c < columns.size(); ++c)
      text += columns[c](row) + (c + 1 == columns.size() ? "\n" : ",");
  }
  return text;
}

/// A number from 0 to 1 that has nothing to do with others.
double noise(int row, int column) {
  uint64_t state = static_cast<uint64_t>(row) * 1000003 + static_cast<uint64_t>(column) * 7919 + 12345;
  for (int i = 0; i < 4; ++i) state = (state ^ state >> 29) * 0xBF58476D1CE4E5B9;
  return static_cast<double>(state >> 11) / 9007199254740992.0;
}

/// "c0 value", of columns that predict the target y.
std::vector<std::string> predictive(const std::string& text, TargetUse use) {
  std::vector<std::string> found;
  const auto columns = columns_of({text}, request_for({"y"}, use));
  const auto one = predictive_columns(columns, use != TargetUse::numbers, 1),
             many = predictive_columns(columns, use != TargetUse::numbers, 4);
  CHECK(one.size() == many.size());
  for (const PredictiveColumn& each : one) {
    CHECK(each.target == "y");
    CHECK(each.strength <= 1 + 1e-12);
    found.push_back(each.column + " " + each.how);
  }
  return found;
}

using Names = std::vector<std::string>;

TEST_CASE(
    "equal rows have equal numbers and texts in all columns, also in tables that number texts otherwise") {
  const std::string train = "x,k,y\n1,a,1\n-0.0,b,2\n,c,3\n1.0,a,1\n0,b,2\n,c,3\n,,3\n1,a,2\n";
  const std::string val = "k,y,x\nb,2,0\nc,3,\n,3,NA\nz,3,\n";
  const auto columns = columns_of({train, val}, request_for({"y"}, TargetUse::numbers));
  REQUIRE(columns.size() == 3);
  CHECK(columns[0].rows() == 12);
  CHECK(columns[1].words == Names{"a", "b", "c", "z"});
  CHECK(columns[0].numbers == std::vector<float>{0, 1});
  CHECK(groups_of(columns) == Groups{{0, 3}, {1, 4, 8}, {2, 5, 9}, {6, 10}});
  CHECK(groups_of({columns[0]}) == Groups{{0, 3, 7}, {1, 4, 8}, {2, 5, 6, 9, 10, 11}});
  CHECK(groups_of({}) == Groups{});
  CHECK(columns[2].role == ColumnValues::Role::target);
}

TEST_CASE("columns with one value: a number where one is there, a text everywhere; never the target") {
  const auto columns = columns_of({"a,b,c,d,e,f,y\n7,1,u,u,,2,5\n7,,u,,,2.5,5\n,1,u,u,,2,5\n"},
                                  request_for({"y"}, TargetUse::numbers));
  CHECK(constant_columns(columns) == Names{"a", "b", "c", "e"});
}

TEST_CASE("columns that identify rows count them, or have a text of its own in most of them") {
  const TableFile file(
      "n,one,two,name,kind,x,y\n0,1,2,ann,a,5,1\n1,2,3,bob,a,3,1\n2,3,4,cid,b,4,2\n3,4,5,ann,b,9,2\n");
  const auto table = file.read(request_for({"y"}, TargetUse::numbers));
  CHECK(table->columns.names(columns_of_row_names(*table)) == Names{"n", "one", "name"});
}

TEST_CASE("columns that predict classes: by their values or by thresholds, and no others") {
  const auto y = [](int row) { return std::to_string(row * 7 % 3); };
  const auto number = [](double value) { return std::to_string(value); };
  const auto kind = [](int row) { return row * 7 % 3; };
  const std::string text = made_table(
      300,
      {[&](int r) { return "k" + std::to_string(kind(r) * 2 + r % 2); },          // c0: a text of one class
       [&](int r) { return number((kind(r) * 2 + 1) % 5 + 0.9 * noise(r, 1)); },  // c1: intervals
       [&](int r) { return number(kind(r) == 1 ? 9 : 3 + noise(r, 2)); },         // c2: one class only
       [&](int r) { return "id" + std::to_string(r); },                           // c3: unique
       [&](int r) { return number(noise(r, 4)); },                                // c4: noise
       [&](int r) { return r % 20 == 0 ? "z" : "k" + std::to_string(kind(r)); },  // c5: 95 %
       [&](int r) { return std::to_string((kind(r) + 1) * (r % 2 == 0 ? 1 : 10)); },    // c6: codes
       [&](int r) { return kind(r) == 0 ? "" : number(kind(r) + 0.5 * noise(r, 7)); },  // c7: also by lack
       [&](int r) { return number(kind(r) + 1.1 * noise(r, 8)); },                      // c8: with overlaps
       [&](int r) { return std::to_string(r); },                                        // c9: counts rows
       y});
  CHECK(predictive(text, TargetUse::classes) ==
        Names{"c0 value", "c1 threshold", "c6 value", "c7 threshold"});
  // Labels as texts, and one wrong in three hundred.
  std::string wrong = text;
  wrong.replace(wrong.rfind(",0\n"), 3, ",2\n");
  CHECK(predictive(wrong, TargetUse::classes) ==
        Names{"c0 value", "c1 threshold", "c6 value", "c7 threshold"});
}

TEST_CASE("few rows, or few of a rare class, predict nothing") {
  const auto rows = [](int count, int rare) {
    return made_table(count, {[=](int r) { return r < rare ? std::string("a") : std::string("b"); },
                              [=](int r) { return std::to_string(r < rare ? 1 : 0); }});
  };
  CHECK(predictive(rows(19, 9), TargetUse::classes).empty());
  CHECK(predictive(rows(20, 10), TargetUse::classes) == Names{"c0 value"});
  CHECK(predictive(rows(300, 9), TargetUse::classes).empty());
  CHECK(predictive(rows(300, 10), TargetUse::classes) == Names{"c0 value"});
  CHECK(predictive(rows(300, 0), TargetUse::classes).empty());
}

TEST_CASE("columns that predict columns of 0 and 1 name the one they predict") {
  const std::string text = made_table(100, {[](int r) { return std::to_string(r % 5 == 0 ? 3 : 8); },
                                            [](int r) { return std::to_string(noise(r, 1)); },
                                            [](int r) { return std::to_string(r % 3 == 0 ? 1 : 0); },
                                            [](int r) { return std::to_string(r % 5 == 0 ? 1 : 0); }});
  const auto found =
      predictive_columns(columns_of({text}, request_for({"c2", "y"}, TargetUse::label_sets)), true, 2);
  REQUIRE(found.size() == 1);
  CHECK(found[0].column == "c0");
  CHECK(found[0].target == "y");
  CHECK(found[0].how == "threshold");
}

TEST_CASE("columns that predict numbers: linear, monotone or by their values, and no others") {
  const auto target = [](int row) { return std::floor(100 * noise(row / 4, 0)) + 1; };
  const auto number = [](double value) { return std::to_string(value); };
  const std::string text = made_table(
      400, {[&](int r) { return number(target(r)); },                                   // c0: the target
            [&](int r) { return number(-3.5 * target(r) + 12 + 0.01 * noise(r, 1)); },  // c1: linear
            [&](int r) { return number(std::pow(target(r) / 10, 5)); },                 // c2: monotone
            [&](int r) { return "g" + std::to_string(r / 4); },                         // c3: by value
            [&](int r) { return "id" + std::to_string(r); },                            // c4: unique
            [&](int r) { return number(target(r) + 10 * noise(r, 5)); },                // c5: r is 0.995
            [&](int r) { return number(noise(r, 6)); },                                 // c6: noise
            [&](int r) { return r % 3 == 0 ? "" : number(target(r) * 2); },             // c7: where it is
            [&](int r) { return r % 3 != 0 ? "" : number(target(r) * 2); },             // c8: too rarely
            [&](int r) { return std::to_string(r / 4 * 37 % 100); },                    // c9: codes
            [&](int) { return std::string("1"); },                                      // c10: constant
            [&](int r) { return number(target(r)); }});
  CHECK(predictive(text, TargetUse::numbers) ==
        Names{"c0 linear", "c1 linear", "c2 monotone", "c3 value", "c7 linear", "c9 value"});
  const auto constant = [](int) { return std::string("4"); };
  CHECK(predictive(made_table(50, {[](int r) { return std::to_string(r); }, constant}), TargetUse::numbers)
            .empty());
}

}  // namespace
}  // namespace trainer
