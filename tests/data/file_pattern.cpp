// SPDX-License-Identifier: Apache-2.0
#include "core/data/file_pattern.h"

#include <filesystem>
#include "tests/catch.h"

#include "core/base/error.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("a pattern names its files in order") {
  const TemporaryFolder folder;
  for (const char* name : {"x_2.bin", "x_1.bin", "y.bin"}) write_file(folder.path(name), "a");
  CHECK(files_of_pattern(folder.path("x_*.bin")) ==
        std::vector{folder.path("x_1.bin"), folder.path("x_2.bin")});
  CHECK(files_of_pattern(folder.path("y.bin")) == std::vector{folder.path("y.bin")});
  CHECK(files_of_pattern(folder.path("z*")).empty());
}

TEST_CASE("** stands for any folders, also for none; hidden ones and links are passed over") {
  const TemporaryFolder folder;
  for (const char* name : {"books/x/y", "books/x[1]", "books/.hidden", "other"})
    std::filesystem::create_directories(folder.path(name));
  std::filesystem::create_directory_symlink(folder.path("books"), folder.path("books/x/again"));
  for (const char* name : {"books/a.txt", "books/x/b.txt", "books/x/y/c.txt", "books/x[1]/d.txt",
                           "books/.hidden/e.txt", "books/x/y/f.md", "other/g.txt"})
    write_file(folder.path(name), "a");
  const auto found = [&](const std::string& pattern) {
    std::vector<std::string> names;
    for (const std::string& file : files_of_pattern(folder.path(pattern)))
      names.push_back(file.substr(folder.path("").size()));
    return names;
  };
  CHECK(found("books/**/*.txt") ==
        std::vector<std::string>{"books/a.txt", "books/x/b.txt", "books/x/y/c.txt", "books/x[1]/d.txt"});
  CHECK(found("**/y/*") == std::vector<std::string>{"books/x/y/c.txt", "books/x/y/f.md"});
  CHECK(found("**/**/g.txt") == std::vector<std::string>{"other/g.txt"});
  CHECK(found("books/x**/b.txt") == std::vector<std::string>{"books/x/b.txt"});  // no folder of its own
  CHECK(found("none/**/*.txt").empty());
}

TEST_CASE("a folder in place of a file is answered with the patterns to write") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("books/x"));
  for (const std::string name : {"books", "books/", "books/*"}) {
    INFO(name);
    CHECK_THROWS_WITH(files_of_pattern(folder.path(name)),
                      ContainsSubstring("expected a file, found a folder") && ContainsSubstring("**/*.txt"));
  }
}

TEST_CASE("numbers in braces stand for a file each, and each must be there") {
  const TemporaryFolder folder;
  for (const char* name : {"x-008.tar", "x-009.tar", "x-010.tar", "y9-0.tar", "y10-0.tar", "z{a,b}.tar"})
    write_file(folder.path(name), "a");
  const auto paths = [&](const std::vector<std::string>& names) {
    std::vector<std::string> all;
    for (const std::string& name : names) all.push_back(folder.path(name));
    return all;
  };
  CHECK(files_of_pattern(folder.path("x-{008..010}.tar")) == paths({"x-008.tar", "x-009.tar", "x-010.tar"}));
  CHECK(files_of_pattern(folder.path("x-{009..009}.*")) == paths({"x-009.tar"}));
  CHECK(files_of_pattern(folder.path("y{9..10}-{0..0}.tar")) == paths({"y10-0.tar", "y9-0.tar"}));
  CHECK(files_of_pattern(folder.path("z{a,b}.tar")) == paths({"z{a,b}.tar"}));
  CHECK(missing_of_pattern(folder.path("x-{008..010}.tar")).empty());
  CHECK(missing_of_pattern(folder.path("x-{007..012}.tar")) ==
        paths({"x-007.tar", "x-011.tar", "x-012.tar"}));
  CHECK(missing_of_pattern(folder.path("x-{8..9}.tar")) == paths({"x-8.tar", "x-9.tar"}));
  CHECK(missing_of_pattern(folder.path("none*")) == paths({"none*"}));
  for (const std::string pattern : {"x-{3..2}.tar", "x-{0..9999999}.tar", "{0..999}{0..999}{0..9}"}) {
    INFO(pattern);
    CHECK_THROWS_WITH(files_of_pattern(folder.path(pattern)),
                      ContainsSubstring("expected ascending numbers"));
  }
}

}  // namespace
}  // namespace trainer
