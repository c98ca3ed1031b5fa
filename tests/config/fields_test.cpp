// SPDX-License-Identifier: Apache-2.0
#include <locale>
#include "tests/catch.h"

#include "tests/config/sample.h"

namespace trainer {

namespace {

/// One target of each type, to read `key: text` into one of them.
struct Targets {
  bool flag = false;
  int64_t integer = -77;
  double number = -77;
  std::string text = "untouched";
  Duration duration;
  ByteSize size;
  Pair pair = {-7, -7};
  std::vector<int64_t> integers;
  std::vector<double> numbers;
  std::vector<std::string> texts;
  std::optional<int64_t> maybe_integer = 5;
  std::optional<double> maybe_number = 5;
  std::optional<std::string> maybe_text = "5";
  std::optional<ByteSize> maybe_size = ByteSize{5};
  std::optional<Duration> maybe_duration = Duration{5, Duration::Unit::batches};

  std::string read(Field::Target target, const std::string& text_given) {
    Diagnostics diagnostics;
    const Value root = parse_yaml("key: " + text_given + "\n", "r.yaml", diagnostics);
    Fields fields;
    fields.add("key", target, "help");
    fields.read(root, "", diagnostics);
    if (diagnostics.ok()) return fields.list()[0].current_text();
    REQUIRE(diagnostics.problems().size() == 1);
    return diagnostics.problems()[0];
  }
};

const std::string kAtKey = "r.yaml:1:1: error: key: ";

}  // namespace

TEST_CASE("every type reads what it should, and prints it again") {
  Targets t;
  CHECK(t.read(&t.flag, "true") == "true");
  for (const auto& [text, printed] :
       std::vector<std::pair<std::string, std::string>>{{"5", "5"},
                                                        {"-3", "-3"},
                                                        {"+4", "4"},
                                                        {"1e3", "1000"},
                                                        {"9223372036854775807", "9223372036854775807"}}) {
    CHECK(t.read(&t.integer, text) == printed);
  }
  for (const auto& [text, printed] : std::vector<std::pair<std::string, std::string>>{
           {"1e-5", "1e-05"}, {"5", "5"}, {".5", "0.5"}, {"-2.50", "-2.5"}, {"+1.", "1"}, {"1E2", "100"}}) {
    CHECK(t.read(&t.number, text) == printed);
  }
  CHECK(t.read(&t.text, "plain words") == "plain words");
  CHECK(t.read(&t.text, "5") == "\"5\"");
  CHECK(t.read(&t.text, "''") == "\"\"");
  CHECK(t.read(&t.duration, "10ep") == "10ep");
  CHECK(t.read(&t.duration, "'500ba'") == "500ba");
  CHECK(t.read(&t.size, "1048576") == "1MiB");
  CHECK(t.read(&t.size, "80GiB") == "80GiB");
  CHECK(t.read(&t.pair, "3") == "[3, 3]");
  CHECK(t.read(&t.pair, "[1, 2]") == "[1, 2]");
  CHECK(t.read(&t.integers, "[1, 2, 1e1]") == "[1, 2, 10]");
  CHECK(t.read(&t.integers, "[]") == "[]");
  CHECK(t.read(&t.numbers, "[1, .5]") == "[1, 0.5]");
  CHECK(t.read(&t.texts, "[a, 'b c', 3]") == "[a, b c, \"3\"]");
  CHECK(t.read(&t.maybe_integer, "3") == "3");
  CHECK(t.read(&t.maybe_integer, "~") == "null");
  CHECK(t.read(&t.maybe_number, "") == "null");
  CHECK(t.read(&t.maybe_text, "null") == "null");
  CHECK(t.read(&t.maybe_text, "'null'") == "\"null\"");
  CHECK(t.read(&t.maybe_size, "1KiB") == "1KiB");
  CHECK(t.read(&t.maybe_duration, "null") == "null");
}

TEST_CASE("every type says what it expected and found, in one error, and keeps its target") {
  Targets t;
  const auto expect = [&](Field::Target target, const std::string& text, const std::string& problem) {
    INFO(text);
    CHECK(t.read(target, text) == kAtKey + problem);
  };
  for (const char* word : {"yes", "on", "True", "1"}) {
    expect(&t.flag, word, std::string("expected true or false, found '") + word + "'");
  }
  expect(&t.flag, "'true'", "expected true or false, found the quoted text 'true'");
  for (const char* word : {"1.5", "0x10", "1_000", "1,5", "five", "5 6", "+-5", "--5", "1e300", "nan"}) {
    expect(&t.integer, word, std::string("expected an integer, found '") + word + "'");
  }
  expect(&t.integer, "99999999999999999999",
         "expected an integer within 64 bits, found '99999999999999999999'");
  expect(&t.integer, "'5'", "expected an integer, found the quoted text '5'");
  expect(&t.integer, "{a: 1}", "expected an integer, found a map");
  expect(&t.integer, "[1]", "expected an integer, found a list");
  expect(&t.integer, "", "expected an integer, found nothing");
  for (const char* word : {"1.5x", "0x1p3", ".", "-.", "1 e5", ".inf", ".nan", "1e"}) {
    expect(&t.number, word, std::string("expected a number, found '") + word + "'");
  }
  expect(&t.number, "inf", "expected a finite number, found 'inf'");
  expect(&t.number, "nan", "expected a finite number, found 'nan'");
  expect(&t.number, "1e999", "expected a number within the range of 64-bit floating point, found '1e999'");
  expect(&t.text, "~", "expected text, found nothing");
  expect(&t.text, "[a]", "expected text, found a list");
  expect(&t.duration, "10",
         "expected a duration such as 10ep (epochs), 500ba (batches) or 1000000tok (tokens), found '10'");
  expect(&t.duration, "{}",
         "expected a duration such as 10ep (epochs), 500ba (batches) or 1000000tok (tokens), found a map");
  expect(&t.size, "95%", "expected a size such as 512MiB or 80GiB, found '95%'");
  expect(&t.pair, "[1, 2, 3]", "expected an integer or a list of two, found a list of 3");
  expect(&t.pair, "{}", "expected an integer or a list of two, found a map");
  expect(&t.pair, "x", "expected an integer, found 'x'");
  expect(&t.integers, "3", "expected a list of integers, found '3'");
  expect(&t.texts, "{a: 1}", "expected a list of texts, found a map");
  expect(&t.maybe_number, "x", "expected a number, found 'x'");
  CHECK(t.read(&t.pair, "[1, x]") == "r.yaml:1:10: error: key[1]: expected an integer, found 'x'");
  CHECK(t.read(&t.integers, "[1, [2]]") == "r.yaml:1:10: error: key[1]: expected an integer, found a list");
  CHECK(t.integer == -77);
  CHECK(t.number == -77);
  CHECK(t.text == "untouched");
  CHECK(t.pair == Pair{-7, -7});
  CHECK(t.maybe_number == 5.0);
}

TEST_CASE("numbers do not depend on the locale") {
  struct DecimalComma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new DecimalComma));
  Targets t;
  const std::string printed = t.read(&t.number, "0.5");
  std::locale::global(before);
  CHECK(printed == "0.5");
  CHECK(t.number == 0.5);
}

TEST_CASE("bounds hold at their edges") {
  double number = 0;
  Pair pair{};
  Duration duration;
  std::vector<double> numbers;
  std::optional<ByteSize> size;
  const auto problem = [&](const std::string& text) {
    Diagnostics diagnostics;
    Fields fields;
    fields.add("closed", &number, "").at_least(1).at_most(2);
    fields.add("open", &number, "").above(0).below(1);
    fields.add("pair", &pair, "").at_least(1);
    fields.add("duration", &duration, "").at_least(1);
    fields.add("numbers", &numbers, "").at_most(0.5);
    fields.add("size", &size, "").above(1024);
    fields.read(parse_yaml(text, "r", diagnostics), "s", diagnostics);
    return diagnostics.ok() ? "" : diagnostics.problems()[0];
  };
  CHECK(problem("closed: 1") == "");
  CHECK(problem("closed: 2") == "");
  CHECK(problem("closed: 2.001") == "r:1:1: error: s.closed: must be at least 1 and at most 2, got 2.001");
  CHECK(problem("open: 0") == "r:1:1: error: s.open: must be above 0 and below 1, got 0");
  CHECK(problem("open: 1") == "r:1:1: error: s.open: must be above 0 and below 1, got 1");
  CHECK(problem("open: 1e-9") == "");
  CHECK(problem("pair: [1, 0]") == "r:1:11: error: s.pair[1]: must be at least 1, got 0");
  CHECK(problem("pair: 0") == "r:1:1: error: s.pair: must be at least 1, got 0");
  CHECK(problem("duration: 0ep") == "r:1:1: error: s.duration: must be at least 1, got 0ep");
  CHECK(problem("numbers: [0.5, 0.6]") == "r:1:16: error: s.numbers[1]: must be at most 0.5, got 0.6");
  CHECK(problem("size: 1KiB") == "r:1:1: error: s.size: must be above 1024, got 1KiB");
  CHECK(problem("size: null") == "");
}

TEST_CASE("a good recipe reaches every target") {
  const Read read(kGoodRecipe);
  REQUIRE(read.problem() == "");
  const Sample& sample = read.sample;
  CHECK(sample.name == "mnist");
  CHECK(sample.seed == 7);
  CHECK_FALSE(sample.threads);
  CHECK(sample.max_duration == Duration{5, Duration::Unit::epochs});
  CHECK(sample.memory == ByteSize{2LL << 30});
  CHECK(sample.metrics == std::vector<std::string>{"top1", "top5"});
  CHECK(sample.optimizer->lr == 0.01);
  REQUIRE(sample.model.size() == 3);
  CHECK(dynamic_cast<Sample::Conv&>(*sample.model[0]).kernel == Pair{3, 5});
  CHECK(dynamic_cast<Sample::Dropout&>(*sample.model[2]).p == 0.25);
}

TEST_CASE("keys that the caller has read are skipped, and places are handed over") {
  Diagnostics diagnostics;
  Fields fields;
  int64_t a = 0, b = 0;
  fields.add("a", &a, "");
  fields.add("b", &b, "");
  std::map<std::string, Location> written;
  fields.read(parse_yaml("inputs: [x]\na: 3\n", "r", diagnostics), "p", diagnostics, &written, {"inputs"});
  CHECK(diagnostics.ok());
  CHECK(a == 3);
  REQUIRE(written.size() == 1);
  CHECK(to_string(written.at("a")) == "r:2:1");
  CHECK_THROWS_AS(fields.add("a", &b, ""), std::logic_error);
}

TEST_CASE("fields and groups describe themselves for listings") {
  Sample sample;
  Fields fields;
  sample.declare(fields);
  std::vector<std::string> names;
  for (const Fields::Key& key : fields.keys()) names.push_back(key.field ? key.field->name : key.group->name);
  CHECK(names ==
        std::vector<std::string>{"version", "run", "device", "data", "training", "optimizer", "model"});
  const Fields& training = *fields.keys()[4].group->section;
  CHECK(training.list()[0].type_text() == "duration");
  CHECK(training.list()[0].bound_text() == "at least 1");
  CHECK(training.list()[0].default_text() == "10ep");
  CHECK(training.list()[1].type_text() == "integer or null");
  CHECK(training.list()[1].current_text() == "null");
  CHECK(training.list()[3].type_text() == "list of texts");
  CHECK(training.list()[3].bound_text() == "one of: top1, top5");
  CHECK(training.list()[3].current_text() == "[top1]");
  CHECK(fields.keys()[3].group->section->list()[0].default_text() == "required");
  const Group& model = *fields.keys()[6].group;
  REQUIRE(model.choices.size() == 3);
  const std::unique_ptr<Component> conv = model.choices[1].make();
  Fields parameters;
  conv->declare(parameters);
  CHECK(parameters.list()[1].type_text() == "integer or [height, width]");
  CHECK(parameters.list()[1].current_text() == "[3, 3]");
}

}  // namespace trainer
