// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include "tests/catch.h"

#include "tests/config/sample.h"

namespace trainer {

namespace {

std::string identity(const std::string& text) {
  const Read read(text);
  REQUIRE(read.problem() == "");
  return to_yaml(read.fields.resolved(Fields::Form::identity), false);
}

/// Whether two values read the same: kind, text and whether a number would be text.
bool same(const Value& a, const Value& b) {
  if (a.kind != b.kind || a.text != b.text || a.quoted != b.quoted) return false;
  if (a.items.size() != b.items.size() || a.entries.size() != b.entries.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!same(a.items[i], b.items[i])) return false;
  }
  for (size_t i = 0; i < a.entries.size(); ++i) {
    if (a.entries[i].key != b.entries[i].key || !same(a.entries[i].value, b.entries[i].value)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("the resolved recipe holds every key and where it came from") {
  setenv("TRAINER_TEST_DIR", "/data", 1);
  const Read read(replaced(kGoodRecipe, "train: digits", "train: ${env:TRAINER_TEST_DIR}/digits"),
                  {"run.seed=1", "device.threads=2"});
  REQUIRE(read.problem() == "");
  CHECK(read.sample.train == "/data/digits");
  CHECK(to_yaml(read.fields.resolved(), true) == R"(version: 1  # r.yaml:1:1
run:
  name: mnist  # r.yaml:2:7
  seed: 1  # command line:1:5
device:
  threads: 2  # command line:2:8
data:
  train: ${env:TRAINER_TEST_DIR}/digits  # r.yaml:4:3
  format: idx  # r.yaml:5:3
training:
  max_duration: 5ep  # r.yaml:7:3
  micro_batch_size: 32  # r.yaml:8:3
  memory: 2GiB  # r.yaml:9:3
  metrics: [top1, top5]  # r.yaml:10:3
optimizer:
  name: sgd  # r.yaml:11:1
  lr: 1e-2  # r.yaml:13:3
  momentum: 0.9  # r.yaml:14:3
  nesterov: false  # default
model:
  - conv2d:
      out_channels: 8  # r.yaml:16:14
      kernel: [3, 5]  # r.yaml:16:31
  - relu  # r.yaml:17:5
  - dropout:
      p: 0.25  # r.yaml:19:7
)");
}

TEST_CASE("a resolved recipe reads again to the same recipe") {
  for (const std::string& text :
       {kGoodRecipe, std::string("data: {train: '17'}\nmodel: [{dropout: 0.25}, relu]\noptimizer: adam\n"),
        std::string("data: {train: \"a: #b\"}\nrun: {name: '~'}\nmodel: []\n")}) {
    const Read first(text);
    REQUIRE(first.problem() == "");
    const Read again(to_yaml(first.fields.resolved(), true));
    REQUIRE(again.problem() == "");
    CHECK(to_yaml(again.fields.resolved(), false) == to_yaml(first.fields.resolved(), false));
    CHECK(to_yaml(again.fields.resolved(Fields::Form::identity), false) ==
          to_yaml(first.fields.resolved(Fields::Form::identity), false));
    CHECK(again.sample.train == first.sample.train);
    CHECK(again.sample.name == first.sample.name);
    CHECK(again.sample.model.size() == first.sample.model.size());
  }
}

TEST_CASE("the identity of a run: what alters the mathematics, however it is written") {
  const std::string same_run = identity(kGoodRecipe);
  CHECK(same_run.find("threads") == std::string::npos);
  CHECK(same_run.find("mnist") == std::string::npos);
  CHECK(same_run.find("seed: 7") != std::string::npos);
  CHECK(identity(replaced(kGoodRecipe, "name: mnist", "name: other")) == same_run);
  CHECK(identity(kGoodRecipe + "device: {threads: 9}\n") == same_run);
  CHECK(identity(replaced(kGoodRecipe, "lr: 1e-2", "lr: 0.010")) == same_run);
  CHECK(identity(replaced(kGoodRecipe, "  memory: 2GiB", "  memory: 2048MiB")) == same_run);
  CHECK(identity(replaced(kGoodRecipe, "dropout:\n      p: 0.25", "dropout: 0.25")) == same_run);
  CHECK(identity(replaced(kGoodRecipe, "  momentum: 0.9", "  momentum: 0.9\n  nesterov: false")) == same_run);
  CHECK(identity(replaced(kGoodRecipe, "seed: 7", "seed: 8")) != same_run);
  CHECK(identity(replaced(kGoodRecipe, "kernel: [3, 5]", "kernel: [5, 3]")) != same_run);
  CHECK(identity(replaced(kGoodRecipe, "name: sgd", "name: sgd\n  nesterov: true")) != same_run);
}

TEST_CASE("leaves: each line's value by its path, the same from the text as from the values") {
  Diagnostics diagnostics;
  const Value value = parse_yaml(
      "a: 0.10\nb: {c: [1, 'two', []], d: ~, e: {}}\nf: [relu, {conv: {size: 3}}, [1, [2]], [x: 1]]\ng: 'x: "
      "y'\n",
      "", diagnostics);
  REQUIRE(diagnostics.ok());
  const std::map<std::string, std::string> expected = {
      {"a", "0.10"},    {"b.c", "[1, \"two\", []]"}, {"b.d", "null"},      {"b.e", "{}"},
      {"f[0]", "relu"}, {"f[1].conv.size", "3"},     {"f[2]", "[1, [2]]"}, {"f[3][0].x", "1"},
      {"g", "\"x: y\""}};
  CHECK(leaves(value) == expected);
  CHECK(leaves(parse_yaml(to_yaml(value, false), "", diagnostics)) == expected);

  Sample sample;
  sample.model.push_back(std::make_unique<Sample::Relu>());
  sample.model.push_back(std::make_unique<Sample::Dropout>());
  Fields fields;
  sample.declare(fields);
  const Value resolved = fields.resolved(Fields::Form::identity);
  CHECK(leaves(resolved) == leaves(parse_yaml(to_yaml(resolved, false), "", diagnostics)));
  CHECK(leaves(resolved).at("model[1].dropout.p") == "0.5");
  CHECK(diagnostics.ok());
}

TEST_CASE("defaults alone resolve without a recipe") {
  Sample sample;
  sample.model.push_back(std::make_unique<Sample::Relu>());
  sample.model.push_back(std::make_unique<Sample::Dropout>());
  Fields fields;
  sample.declare(fields);
  const std::string text = to_yaml(fields.resolved(), true);
  CHECK(text.find("optimizer:\n  name: sgd  # default\n  lr: 0.1  # default\n") != std::string::npos);
  CHECK(text.find("model:\n  - relu  # default\n  - dropout:\n      p: 0.5  # default\n") !=
        std::string::npos);
  CHECK(text.find("threads: null  # default\n") != std::string::npos);
  CHECK(text.find("train: \"\"  # default\n") != std::string::npos);
}

TEST_CASE("any value survives being written and parsed") {
  setenv("TRAINER_TEST_DIR", "/data", 1);
  for (const char* text : {
           "a: [1, [2, '3'], []]\nb: {}\nc: ~\nd: {e: {f: [{g: 1, h: [x]}, i, [{j: 1}]]}}\n",
           "- 1\n- - 2\n  - k: 3\n    l: [4]\n- {}\n",
           "a: '1'\nb: 'true'\nc: ''\nd: 'null'\ne: '~'\nf: ' x '\ng: \"tab\\t, line\\n, \\\\ \\\" \\x01 "
           "\\e\"\n",
           "a: 'x: y'\nb: 'x #y'\nc: '- x'\nd: '[x'\ne: '*x'\nf: '...'\ng: '---'\nh: 'x:'\n",
           "a: -1\nb: -x\nc: .5\nd: a:b\ne: x#y\nf: http://x/y?z=1&w\ng: C:\\x\nh: \xC3\xA4\n",
           "'a b': 1\n'': 2\n'1': 3\n'null': 4\n'x: y': 5\n'{': 6\n\"n\\nl\": 7\n'<<': 8\n'- ': 9\n",
           "a: |\n  two\n  lines\nb: >-\n  folded\n  text\nc: plain\n  folded\n",
           "a: ${env:TRAINER_TEST_DIR}/x\nb: [1, '${env:TRAINER_TEST_DIR}']\n",
           "l:\n- ${env:TRAINER_TEST_DIR}\n- 1\n",
           "plain",
           "[a, b]",
           "{}",
       }) {
    Diagnostics diagnostics;
    INFO(text);
    const Value first = parse_yaml(text, "r", diagnostics);
    for (bool sources : {false, true}) {
      const std::string written = to_yaml(first, sources);
      INFO(written);
      CHECK(same(parse_yaml(written, "r", diagnostics), first));
    }
    for (const std::string& problem : diagnostics.problems()) FAIL_CHECK(problem);
  }
}

}  // namespace trainer
