// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/row_names.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/catch.h"
#include "tests/data/tables/table_file.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("a row's name is its file and line, or its text in a column if no other row has that") {
  const TableFile file("id,x,y=1\n7,\"two\nlines\",1\n\n8,b,2\n8,c,\n9,d,4\nNA,e,5\n", "t.csv");
  TableRequest request = request_for({"y=1"}, TargetUse::numbers);
  request.keys.empty_target = "drop";
  const RowNames names(file.read(request));
  CHECK(names.name(0, "") == "t.csv:2");
  CHECK(names.name(1, "") == "t.csv:5");
  CHECK(names.name(2, "") == "t.csv:7");
  CHECK(names.name(0, "id") == "id=7");
  CHECK(names.name(1, "id") == "id=8");  // the other 8 has no target
  CHECK(names.name(3, "id") == "t.csv:8");
  CHECK(names.name(0, "x") == "t.csv:2");  // a list has a line for each name
  CHECK(names.name(2, "y=1") == "y=1=4");
  for (int64_t row = 0; row < 4; ++row) {
    for (const char* column : {"", "id", "x", "y=1"}) CHECK(names.find(names.name(row, column)) == row);
  }
  for (const char* none : {"", "t.csv", "t.csv:", "t.csv:0", "t.csv:1", "t.csv:3", "t.csv:4", "t.csv:6",
                           "t.csv:9", "t.csv:+2", "t.csv:2 ", "u.csv:2", "id=", "id=10", "ID=7", "7", "=7"})
    CHECK(names.find(none) == std::nullopt);
  CHECK_THROWS_WITH(names.find("id=NA"),
                    ContainsSubstring("column 'id': 'NA' is a missing value, which names no row; name its "
                                      "line, such as t.csv:8"));
  CHECK_THROWS_WITH(names.name(0, "idd"), ContainsSubstring("--id: there is no column 'idd' in"));
  CHECK(names.expected() ==
        "t.csv:LINE, the line on which a row begins, or COLUMN=TEXT, its text in a column");
}

TEST_CASE("names of rows: a text is none if it would be read as that of another column, or as a line") {
  const TableFile file("p,p=1,t.csv:3=q,y\n1=x,x,2,1\nb,c,3,2\n");
  const RowNames names(file.read(request_for({"y"}, TargetUse::numbers)));
  CHECK(names.name(0, "p") == "p=1=x");
  CHECK(names.name(0, "p=1") == "t.csv:2");
  for (int64_t row = 0; row < 2; ++row) {
    for (const char* column : {"p", "p=1", "t.csv:3=q"}) CHECK(names.find(names.name(row, column)) == row);
  }
}

TEST_CASE("names of rows: a text that several rows have names none of them") {
  const TableFile file("id,y\na,1\nb,2\na,3\n");
  const RowNames names(file.read(request_for({"y"}, TargetUse::numbers)));
  CHECK(names.name(0, "id") == "t.csv:2");
  CHECK(names.name(1, "id") == "id=b");
  CHECK(names.name(2, "id") == "t.csv:4");
  CHECK_THROWS_WITH(names.find("id=a"), ContainsSubstring("column 'id': several rows have 'a'; name their "
                                                          "lines, such as t.csv:2 and t.csv:4"));
}

TEST_CASE("names of rows: files are below the folder of all, and lines begin anew in each") {
  const test::ScratchDirectory directory;
  std::vector<std::string> files;
  for (const char* name : {"a/x.csv", "a/b/x.csv", "c.csv"}) {
    const auto path = directory.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "x,y\n1,2\n3,4\n";
    files.push_back(path.string());
  }
  const RowNames names(read_table(files, request_for({"y"}, TargetUse::numbers), 1));
  CHECK(names.name(1, "") == "a/x.csv:3");
  CHECK(names.name(2, "") == "a/b/x.csv:2");
  CHECK(names.name(5, "") == "c.csv:3");
  CHECK(names.find("a/b/x.csv:3") == 3);
  CHECK(names.find("x.csv:3") == std::nullopt);
  CHECK(names.expected().starts_with("FILE:LINE, "));
  // A folder and the current one share none.
  const std::string name = "row_names_test.csv";
  std::ofstream(name) << "x,y\n1,2\n3,4\n";
  const RowNames mixed(read_table({files[0], name}, request_for({"y"}, TargetUse::numbers), 1));
  CHECK(mixed.name(1, "") == files[0] + ":3");
  CHECK(mixed.name(2, "") == name + ":2");
  std::filesystem::remove(name);
}

TEST_CASE("names of rows: a file with other rows than before is refused") {
  const TableFile file("x,y\n1,2\n3,4\n");
  const auto table = file.read(request_for({"y"}, TargetUse::numbers));
  for (const char* text : {"x,y\n1,2\n", "x,y\n1,2\n3,4\n5,6\n"}) {
    std::ofstream(file.path) << text;
    CHECK_THROWS_WITH(RowNames(table).name(0, ""),
                      ContainsSubstring("the file changed while it was read; it had 2 rows before"));
  }
}

}  // namespace
}  // namespace trainer
