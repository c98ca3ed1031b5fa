// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <ctime>
#include "tests/catch.h"

#include "core/config/value.h"
#include "tests/sanitized.h"

namespace trainer {

namespace {

std::string only_problem(const std::string& text) {
  Diagnostics diagnostics;
  parse_yaml(text, "r.yaml", diagnostics);
  std::string all;
  for (const std::string& problem : diagnostics.problems()) all += all.empty() ? problem : "\n" + problem;
  return all;
}

/// Processor time, which does not depend on the machine's other work.
double milliseconds_to_refuse(const std::string& text, const std::string& expected) {
  const std::clock_t start = std::clock();
  const std::string problem = only_problem(text);
  const std::clock_t taken = std::clock() - start;
  INFO(problem);
  CHECK(problem.find(expected) != std::string::npos);
  return 1000.0 * static_cast<double>(taken) / CLOCKS_PER_SEC;
}

std::string repeated(const std::string& piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += piece;
  return text;
}

constexpr double kQuick = kIsSanitized ? 2000 : 100;

}  // namespace

TEST_CASE("values keep their places and their quotes") {
  Diagnostics diagnostics;
  const Value root = parse_yaml("a: 1\nb:\n  c: [x, '2', ~]\n  d: {e: \"f\"}\ng:\n", "r.yaml", diagnostics);
  REQUIRE(diagnostics.ok());
  CHECK(to_string(root.entries[0].where) == "r.yaml:1:1");
  CHECK(to_string(root.entries[0].value.where) == "r.yaml:1:4");
  const Value& list = *root.find("b")->find("c");
  CHECK(to_string(list.where) == "r.yaml:3:6");
  CHECK(to_string(list.items[1].where) == "r.yaml:3:10");
  CHECK(list.items[1].quoted);
  CHECK_FALSE(list.items[0].quoted);
  CHECK(list.items[2].kind == Value::Kind::null);
  CHECK(to_string(root.find("b")->find("d")->entries[0].where) == "r.yaml:4:7");
  CHECK(root.find("g")->kind == Value::Kind::null);
  CHECK(to_string(root.find("g")->where) == "r.yaml:5:1");
  CHECK(root.find("nothing") == nullptr);
}

TEST_CASE("an empty document is an empty map") {
  for (const char* text : {"", "\n", "# only a comment\n", "---\n", "---\n...\n", "~", "\xEF\xBB\xBF"}) {
    Diagnostics diagnostics;
    INFO(text);
    CHECK(parse_yaml(text, "r.yaml", diagnostics).kind == Value::Kind::map);
    CHECK(diagnostics.ok());
  }
}

TEST_CASE("a byte order mark, Windows line ends and a document's end are no content") {
  Diagnostics diagnostics;
  const Value root =
      parse_yaml("\xEF\xBB\xBF%YAML 1.2\n---\r\na: 1\r\nb: 2\r\n...\r\n", "r.yaml", diagnostics);
  REQUIRE(diagnostics.ok());
  REQUIRE(root.entries.size() == 2);
  CHECK(root.find("a")->text == "1");
  CHECK(to_string(root.entries[1].where) == "r.yaml:4:1");
}

TEST_CASE("aliases are expanded, at the place of their anchor") {
  Diagnostics diagnostics;
  const Value root = parse_yaml("a: &x {b: 1, c: [2]}\nd: *x\n&k e: *k\n", "r.yaml", diagnostics);
  REQUIRE(diagnostics.ok());
  CHECK(root.find("d")->find("c")->items[0].text == "2");
  CHECK(to_string(root.find("d")->find("b")->where) == "r.yaml:1:11");
  CHECK(root.find("e")->text == "e");
}

TEST_CASE("each mistake is one error at its place") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a: 1\nb: 2\na: 3\n", "r.yaml:3:1: error: duplicate key 'a', first given at line 1"},
      {"s:\n  a: 1\n  b: {x: 1, x: 2}\n",
       "r.yaml:3:13: error: s.b: duplicate key 'x', first given at line 3"},
      {"x: &a {b: 1, b: 2}\ny: *a\n", "r.yaml:1:14: error: x: duplicate key 'b', first given at line 1"},
      {"a: b: c\n",
       "r.yaml:1:5: error: not valid YAML: unexpected ':'; check the indentation, and put text that holds ': "
       "' in "
       "quotes"},
      {"a:\n\tb: 1\n", "r.yaml:2:1: error: expected spaces as indentation, found a tab"},
      {"a: 1\n\tb: 2\n", "r.yaml:2:1: error: expected spaces as indentation, found a tab"},
      {"a: [1, 2\n", "r.yaml:1:9: error: not valid YAML: end of sequence flow not found"},
      {"a: 1\nb: \"never closed\nc: 2\n",
       "r.yaml:2:1: error: a quoted text that starts after this place is never closed"},
      {"a: &a [*a]\n", "r.yaml:1:8: error: an alias must not be inside the value it refers to"},
      {"a: !thing 1\n", "r.yaml:1:4: error: tags such as '!thing' are not supported; leave it out"},
      {"a: !!map {}\n",
       "r.yaml:1:4: error: tags such as 'tag:yaml.org,2002:map' are not supported; leave it out"},
      {"? [1]\n: 2\n", "r.yaml:1:3: error: expected a name as key, found a list"},
      {"s: {~: 2}\n", "r.yaml:1:5: error: s: expected a name as key, found nothing"},
      {"<<: {a: 1}\n",
       "r.yaml:1:1: error: merge keys '<<' are not supported; write the keys out, or alias a whole value"},
      {"a: 1\n---\nb: 2\n",
       "r.yaml:2:1: error: expected the end of the recipe, found text that does not belong to the map above; "
       "a recipe is one document"},
      {"a: 1\nb: \x01\n",
       "r.yaml:2:4: error: expected UTF-8 text, found the byte 0x01; is this a YAML file?"},
      {"a: \x04 and more\n",
       "r.yaml:1:4: error: expected UTF-8 text, found the byte 0x04; is this a YAML file?"},
      {"a: \xC0\xAF\n", "r.yaml:1:4: error: expected UTF-8 text, found the byte 0xC0; is this a YAML file?"},
      {"a: \xED\xA0\x80\n",
       "r.yaml:1:4: error: expected UTF-8 text, found the byte 0xED; is this a YAML file?"},
      {"a: \"x\\_y\"\n",
       "r.yaml:1:4: error: the escapes \\N and \\_ are not supported; write \\u0085 or \\u00A0"},
      {"\"\\N\": 1\n",
       "r.yaml:1:1: error: the escapes \\N and \\_ are not supported; write \\u0085 or \\u00A0"},
      {"a: \"\\x00\"\n", "r.yaml:1:4: error: a: a text may not hold a zero byte"},
      {"a: {b: ${env:HOME}}\n",
       "r.yaml:1:9: error: not valid YAML: end of map flow not found; inside { } a text with ${env:...} "
       "needs "
       "quotes"},
  };
  for (const auto& [text, expected] : cases) {
    INFO(text);
    CHECK(only_problem(text) == expected);
  }
  // yaml-cpp 0.8 adds its name.
  CHECK_THAT(
      only_problem("a: *nowhere\n"),
      Catch::Matchers::StartsWith("r.yaml:1:4: error: not valid YAML: the referenced anchor is not defined"));
}

TEST_CASE("any bytes whatever are read or refused, never worse") {
  const std::string pieces = "a:-[]{},&*!|>'\"%@`?#\n \t\\~<0.\x80\xFF";
  for (unsigned seed : {1u, 2u, 3u}) {
    unsigned state = seed;
    for (int round = 0; round < 3000; ++round) {
      std::string text;
      for (int i = 0; i < 24; ++i) {
        state = state * 1664525u + 1013904223u;
        text += pieces[(state >> 16) % pieces.size()];
      }
      Diagnostics diagnostics;
      const Value root = parse_yaml(text, "r.yaml", diagnostics);
      for (const std::string& problem : diagnostics.problems()) REQUIRE(problem.starts_with("r.yaml:"));
      REQUIRE(root.reported <= !diagnostics.ok());
    }
  }
}

TEST_CASE("bombs are refused at once") {
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string alias = "*a" + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + alias +
              repeated(", " + alias, 8) + "]\n";
  }
  CHECK(milliseconds_to_refuse(laughs, "r.yaml:6:10: error: the recipe is too large") < kQuick);

  const std::string long_text =
      "a: &a " + std::string(100'000, 'x') + "\nb: [" + repeated("*a, ", 50'000) + "]\n";
  CHECK(milliseconds_to_refuse(long_text, "too large") < kQuick);
  CHECK(milliseconds_to_refuse("a: " + repeated("[", 20'000), "r.yaml:1:") < kQuick);
  CHECK(milliseconds_to_refuse(repeated("- ", 20'000), "r.yaml:1:129: error: nested deeper than 64") <
        kQuick);
  CHECK(milliseconds_to_refuse(repeated("x", 5 << 20), "a recipe has at most 4 MiB") < kQuick);

  std::string chain = "a0: &a0 [x]\n";  // each level by an alias: nothing nests in the text
  for (int i = 1; i < 80; ++i) {
    const std::string number = std::to_string(i);
    chain += "a" + number + ": &a" + number + " [*a" + std::to_string(i - 1) + "]\n";
  }
  CHECK(milliseconds_to_refuse(chain, "error: nested deeper than 64 levels") < kQuick);
}

TEST_CASE("the limits themselves are allowed") {
  CHECK(only_problem(repeated("- ", 63) + "x").empty());
  CHECK(only_problem(repeated("[", 64) + repeated("]", 64)).empty());
  CHECK(only_problem("[" + repeated("1,", 99'999) + "]").empty());
  CHECK(only_problem("[" + repeated("1,", 100'000) + "]").find("too large") != std::string::npos);
}

TEST_CASE("environment variables are expanded, and kept as written") {
  setenv("TRAINER_TEST_DIR", "/data", 1);
  unsetenv("TRAINER_TEST_NONE");
  Diagnostics diagnostics;
  const Value root = parse_yaml(
      "a: ${env:TRAINER_TEST_DIR}/x${env:TRAINER_TEST_DIR}\nb: '${env:TRAINER_TEST_DIR}'\n"
      "c: $HOME ${x} $\n",
      "r.yaml", diagnostics);
  REQUIRE(diagnostics.ok());
  CHECK(root.find("a")->text == "/data/x/data");
  CHECK(root.find("a")->raw == "${env:TRAINER_TEST_DIR}/x${env:TRAINER_TEST_DIR}");
  CHECK(root.find("b")->text == "/data");
  CHECK(root.find("c")->text == "$HOME ${x} $");
  CHECK(only_problem("s:\n  a: x${env:TRAINER_TEST_NONE}\n") ==
        "r.yaml:2:6: error: s.a: the environment variable TRAINER_TEST_NONE is not set; run `export "
        "TRAINER_TEST_NONE=...` first");
  for (const char* bad : {"a: ${env:}", "a: ${env:x", "a: ${env:1}", "a: ${env:a-b}"}) {
    CHECK(only_problem(bad) ==
          "r.yaml:1:4: error: a: expected the name of an environment variable, as in ${env:DATA_DIR}");
  }
}

TEST_CASE("files that cannot be read are errors where they are mentioned") {
  const Location mentioned{"r.yaml", 4, 2};
  for (const auto& [path, reason] :
       {std::pair{"/nonexistent/x.yaml", "No such file or directory"}, std::pair{"/", "Is a directory"}}) {
    Diagnostics diagnostics;
    CHECK(load_yaml(path, mentioned, diagnostics).reported);
    REQUIRE(diagnostics.problems().size() == 1);
    CHECK(diagnostics.problems()[0] ==
          "r.yaml:4:2: error: cannot read '" + std::string(path) + "': " + reason);
  }
  Diagnostics diagnostics;
  CHECK(load_yaml("/dev/null", mentioned, diagnostics).kind == Value::Kind::map);
  CHECK(diagnostics.ok());
}

}  // namespace trainer
