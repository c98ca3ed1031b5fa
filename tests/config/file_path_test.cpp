// SPDX-License-Identifier: Apache-2.0
#include "core/config/file_path.h"

#include <cstdlib>
#include "tests/catch.h"

#include "core/config/fields.h"
#include "core/config/networks.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

/// A map with one path, as a recipe in this file or an override gives it.
struct ReadPath {
  ReadPath(const std::string& text, const std::string& file, const std::string& override = "") {
    Value root = parse_yaml(text, file, diagnostics);
    if (!override.empty()) apply_override(root, override, 1, diagnostics);
    fields.add("files", &path, "where they are").path_where([](const std::string& given) {
      return given != "auto";
    });
    fields.read(root, "", diagnostics);
  }
  std::string shown() const { return with_base(path); }
  std::string dumped() const { return to_yaml(fields.resolved(), false); }
  std::string identity() const { return to_yaml(fields.resolved(Fields::Form::identity), false); }

  FilePath path;
  Fields fields;
  Diagnostics diagnostics;
};

std::string here() {
  return fs::canonical(".").string();
}

}  // namespace

TEST_CASE(
    "a path of a recipe begins at the folder of the recipe, one of the command line where that was given") {
  CHECK(ReadPath("files: a/b", "r.yaml").path.resolved == "a/b");
  CHECK(ReadPath("files: a/b", "sub/r.yaml").path.resolved == "sub/a/b");
  CHECK(ReadPath("files: ../b", "/there/sub/r.yaml").path.resolved == "/there/sub/../b");
  CHECK(ReadPath("files: /a/b", "sub/r.yaml").path.resolved == "/a/b");
  CHECK(ReadPath("files: x", "sub/r.yaml", "files=a/b").path.resolved == "a/b");
  CHECK(ReadPath("files: auto", "sub/r.yaml").path.resolved == "auto");
  CHECK(ReadPath("files: ''", "sub/r.yaml").path.resolved.empty());
  CHECK(ReadPath("files: a", "/dev/null").path.resolved == "a");
  CHECK(ReadPath("files: [a]", "r.yaml").diagnostics.problems() ==
        std::vector<std::string>{"r.yaml:1:1: error: files: expected a path, found a list"});
}

TEST_CASE("a tilde is the home directory") {
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  ::setenv("HOME", "/home-of-a-test", 1);
  CHECK(ReadPath("files: ~/a", "sub/r.yaml").path.resolved == "/home-of-a-test/a");
  CHECK(ReadPath("files: '~'", "sub/r.yaml").path.resolved == "/home-of-a-test");
  CHECK(ReadPath("files: x", "sub/r.yaml", "files=~/b").path.resolved == "/home-of-a-test/b");
  CHECK(ReadPath("files: ~a", "sub/r.yaml").path.resolved == "sub/~a");
  CHECK(ReadPath("files: ~/a", "sub/r.yaml").identity() == "files: ~/a\n");
  ::unsetenv("HOME");
  CHECK(ReadPath("files: ~/a", "r.yaml").path.resolved == "~/a");
  if (!home.empty()) ::setenv("HOME", home.c_str(), 1);
}

TEST_CASE("a path identifies a run as it is written, and is dumped so that it leads there from anywhere") {
  const ReadPath relative("files: ../a/b", "sub/r.yaml"), overridden("files: x", "sub/r.yaml", "files=a/b");
  CHECK(relative.identity() == "files: ../a/b\n");
  CHECK(relative.dumped() == "files: " + here() + "/a/b\n");
  CHECK(overridden.identity() == "files: a/b\n");
  CHECK(overridden.dumped() == "files: " + here() + "/a/b\n");
  CHECK(ReadPath("files: ../a/b", "r.yaml").dumped() ==
        "files: " + fs::path(here()).parent_path().string() + "/a/b\n");
  CHECK(ReadPath("files: /a/b", "sub/r.yaml").dumped() == "files: /a/b\n");
  CHECK(ReadPath("files: auto", "sub/r.yaml").dumped() == "files: auto\n");
}

TEST_CASE("a message about a relative path says what it is relative to") {
  CHECK(ReadPath("files: a/b", "r.yaml").shown() == "a/b, relative to the recipe's folder " + here());
  CHECK(ReadPath("files: a/b", "/r.yaml").shown() == "a/b, relative to the recipe's folder /");
  CHECK(ReadPath("files: x", "/r.yaml", "files=a/b").shown() ==
        "a/b, relative to the working directory " + here());
  CHECK(ReadPath("files: a", "/dev/null").shown() == "a, relative to the working directory " + here());
  CHECK(ReadPath("files: /a/b", "r.yaml").shown() == "/a/b");
  CHECK(with_base(ReadPath("files: a", "/usr/r.yaml").path, "/usr/a/1.bin") ==
        "a/1.bin, relative to the recipe's folder /usr");
}

TEST_CASE("of a list of files each is a path") {
  const FilePath list = resolve_list(ReadPath("files: 'a.bin,/b.bin,../c.bin'", "/usr/bin/r.yaml").path);
  CHECK(list.resolved == "/usr/bin/a.bin,/b.bin,/usr/bin/../c.bin");
  CHECK(list.written == "a.bin,/b.bin,../c.bin");
  CHECK(from_anywhere(list) == fs::canonical("/usr/bin").string() + "/a.bin,/b.bin," +
                                   fs::canonical("/usr/bin").parent_path().string() + "/c.bin");
  CHECK(with_base(list, "/b.bin") == "/b.bin");
  CHECK_THAT(with_base(list, "/usr/bin/a.bin"), ContainsSubstring("a.bin, relative to the recipe's folder "));
  // Elsewhere a comma is a part of a name.
  CHECK(ReadPath("files: 'a,b'", "/usr/r.yaml").path.resolved == "/usr/a,b");
}

TEST_CASE("networks that come with the program are found by their names") {
  Diagnostics diagnostics;
  const auto load = [&](const std::string& text) {
    Value named;
    named.kind = Value::Kind::scalar;
    named.text = text;
    named.where = {"/nowhere/r.yaml", 3, 5};
    return load_network(named, named.where, diagnostics);
  };
  CHECK(is_network_name("resnet18"));
  for (const char* text : {"resnet18.yaml", "./resnet18", "models/x", "", "~"})
    CHECK_FALSE(is_network_name(text));
  CHECK(load("resnet18").find("templates") != nullptr);
  CHECK(diagnostics.ok());
  CHECK(load("resnet19").reported);
  CHECK(load("my.yaml").reported);
  REQUIRE(diagnostics.problems().size() == 2);
  CHECK(diagnostics.problems()[0] ==
        "/nowhere/r.yaml:3:5: error: no network 'resnet19' comes with the program; did you mean 'resnet18'?; "
        "the "
        "name of a file has an ending or a '/'");
  CHECK(diagnostics.problems()[1] ==
        "/nowhere/r.yaml:3:5: error: cannot read my.yaml, relative to the recipe's folder /nowhere: No such "
        "file or "
        "directory");
}

}  // namespace trainer
