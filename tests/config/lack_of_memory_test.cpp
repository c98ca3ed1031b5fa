// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "core/base/directory.h"
#include "core/base/json.h"
#include "core/base/memory_reserve.h"
#include "core/base/variant.h"
#include "tests/catch.h"
#include "tests/config/failing_new.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

const char* const kJsonText =
    R"({"a name that needs memory": [1, 2.5, "a text that needs memory", {}], "b": {"c": [[], null, true]}})";

/// Longer than a text that needs no allocation.
const std::string kLongText(40, 'x');

TEST_CASE("a JSON value reports each allocation that fails") {
  const Json value = Json::parse_or_null(kJsonText);
  CHECK(fail_each_allocation([&] { const Json copy(value); }) > 5);
  CHECK(fail_each_allocation([&] {
          Json copy("another");
          copy = value;
        }) > 5);
  CHECK(fail_each_allocation([&] { value.dump(2); }) > 5);
  CHECK(fail_each_allocation([&] { Json::parse_or_null(kJsonText); }) > 5);
  CHECK(fail_each_allocation([&] {
          Json list = {{kLongText, {1, 2, kLongText}}, {"b", Json{{"c", kLongText}}}};
          list.sort();
        }) > 5);
}

TEST_CASE("a variant's copy reports each allocation that fails") {
  using Value = Variant<int, std::string, std::vector<int>>;
  const Value text(kLongText), list(std::vector<int>{1, 2, 3});
  CHECK(fail_each_allocation([&] { const Value copy(text); }) == 1);
  CHECK(fail_each_allocation([&] { const Value copy(list); }) == 1);
  CHECK(std::get<std::string>(Value(text)) == kLongText);
}

/// Whether a failing allocation is visible to the program.
bool sees_failure() {
  fail_allocation(1);
  bool seen = false;
  try {
    const std::string copy(kLongText);
  } catch (const std::bad_alloc&) {
    seen = true;
  }
  fail_allocation(0);
  return seen;
}

TEST_CASE("a reserve of memory helps once, and says so") {
  CHECK(sees_failure());
  {
    const MemoryReserve reserve(1000);
    CHECK_NOTHROW(reserve.require_untouched());
    CHECK_FALSE(sees_failure());
    CHECK_THROWS_AS(reserve.require_untouched(), std::bad_alloc);
    CHECK(sees_failure());
    const MemoryReserve inner(1000);
    CHECK_FALSE(sees_failure());
  }
  CHECK(sees_failure());
}

/// A directory with files, a link, a directory that is hidden and one that is not; gone at the end.
struct Tree {
  Tree() {
    fs::create_directories(root / "folder/.hidden");
    for (const char* name : {"a", "folder/b", "folder/.hidden/c"}) std::ofstream(root / name) << name;
    fs::create_directory_symlink("folder", root / "link");
    fs::create_symlink("nowhere", root / "dangling");
  }
  ~Tree() { remove_tree(root); }
  fs::path root = fs::temp_directory_path() / fmt::format("directory-test-{}", ::getpid());
};

TEST_CASE("a directory's entries are those that the library lists") {
  const Tree tree;
  std::set<std::string> directories, others;
  for (const DirectoryEntry& entry : directory_entries(tree.root)) {
    (entry.is_directory() ? directories : others).insert(entry.path().filename());
    CHECK(entry.is_symlink() == fs::is_symlink(entry.path()));
  }
  CHECK(directories == std::set<std::string>{"folder", "link"});
  CHECK(others == std::set<std::string>{"a", "dangling"});
  CHECK(fail_each_allocation([&] { directory_entries(tree.root); }) > 5);
  CHECK_THROWS_AS(directory_entries(tree.root / "absent"), fs::filesystem_error);
  std::error_code problem;
  CHECK(directory_entries(tree.root / "a", problem).empty());
  CHECK(problem == std::errc::not_a_directory);
}

TEST_CASE("a tree is removed without what its links lead to, and without memory of the program's") {
  const Tree tree;
  const fs::path below = tree.root / "folder";
  fs::create_directory_symlink(tree.root, below / "up");
  CHECK(fail_each_allocation([&] { remove_tree(below); }) == 0);
  CHECK_FALSE(fs::exists(below));
  CHECK(fs::exists(tree.root / "a"));
  CHECK(remove_tree(below) == ENOENT);
}

}  // namespace
}  // namespace trainer
