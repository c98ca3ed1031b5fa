// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "tests/config/sample.h"

namespace trainer {

namespace {

const std::string kText = "a:\n  b: 1\n  list: [1, {k: 2}, [3, 4]]\ntext: word\nnone:\nwords: [tanh, relu]\n";

/// The recipe after the override, as one text, or the problem.
std::string after(const std::string& argument) {
  Diagnostics diagnostics;
  Value root = parse_yaml(kText, "r.yaml", diagnostics);
  const std::string before = to_yaml(root, true);
  apply_override(root, argument, 2, diagnostics);
  if (diagnostics.ok()) return to_yaml(root, false);
  CHECK(to_yaml(root, true) == before);
  CHECK(diagnostics.problems().size() == 1);
  return diagnostics.problems()[0];
}

Value overridden(const std::string& argument) {
  Diagnostics diagnostics;
  Value root = parse_yaml(kText, "r.yaml", diagnostics);
  apply_override(root, argument, 2, diagnostics);
  CHECK(diagnostics.ok());
  return root;
}

}  // namespace

TEST_CASE("an override sets a value and its place") {
  const Value root = overridden("a.b=7");
  CHECK(root.find("a")->find("b")->text == "7");
  CHECK(to_string(root.find("a")->entries[0].where) == "command line:2:3");
  CHECK(to_string(root.find("a")->find("b")->where) == "command line:2:5");
  CHECK(root.find("a")->entries[0].key == "b");
  CHECK(root.find("a")->entries.size() == 2);
}

TEST_CASE("an override reaches into lists, and makes maps on its way") {
  CHECK(overridden("a.list[1].k=9").find("a")->find("list")->items[1].find("k")->text == "9");
  CHECK(overridden("a.list[2][0]=9").find("a")->find("list")->items[2].items[0].text == "9");
  CHECK(overridden("a.list[0]=[5, 6]").find("a")->find("list")->items[0].items[1].text == "6");
  CHECK(overridden("new.deep.key=1").find("new")->find("deep")->find("key")->text == "1");
  CHECK(overridden("none.key=1").find("none")->find("key")->text == "1");
  CHECK(overridden("text={x: 1e-3, y: 10ep}").find("text")->find("y")->text == "10ep");
  CHECK(overridden("text=").find("text")->kind == Value::Kind::null);
  CHECK(overridden("text='1'").find("text")->quoted);
  CHECK(overridden("text=a=b").find("text")->text == "a=b");
  // A section that is a word is a component of that name.
  CHECK(overridden("text.x=1").find("text")->find("name")->text == "word");
  CHECK(overridden("text.x=1").find("text")->find("x")->text == "1");
  // So is an item of a list, whose path in messages ends with its name.
  const Value layers = overridden("words[1].relu.x=1");
  CHECK(layers.find("words")->items[1].find("relu")->find("x")->text == "1");
  Value empty;
  Diagnostics diagnostics;
  apply_override(empty, "a=1", 1, diagnostics);
  CHECK(empty.find("a")->text == "1");
}

TEST_CASE("a refused override changes nothing and says where it is wrong") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a.b", "command line:2:1: error: expected section.key=value, found 'a.b'"},
      {"=1", "command line:2:1: error: expected a key, found none; write section.key=value"},
      {"a..b=1", "command line:2:3: error: expected a key, found none; write section.key=value"},
      {"a.=1", "command line:2:3: error: expected a key, found none; write section.key=value"},
      {"[0]=1", "command line:2:1: error: expected a key, found none; write section.key=value"},
      {"a.list[x]=1", "command line:2:7: error: expected an index such as [2]"},
      {"a.list[-1]=1", "command line:2:7: error: expected an index such as [2]"},
      {"a.list[1=1", "command line:2:7: error: expected an index such as [2]"},
      {"a.list[1]k=1", "command line:2:10: error: expected '.' or '[' after an index"},
      {"a.list[3]=1", "command line:2:7: error: index 3 is out of range: 'a.list' has [0] to [2]"},
      {"a[0]=1", "command line:2:2: error: 'a' is a map (r.yaml:2:3), not a list"},
      {"made.up[0]=1", "command line:2:8: error: 'made.up' is nothing (command line:2:6), not a list"},
      {"a.b.x=1",
       "command line:2:5: error: 'a.b' is '1' (r.yaml:2:6), which has no key 'x'; to replace it write "
       "a.b={...}"},
      {"a.list.x=1",
       "command line:2:8: error: 'a.list' is a list (r.yaml:3:9), which has no key 'x'; to replace it write "
       "a.list={...}"},
      {"a.b=[1, 2", "command line:2:10: error: a.b: not valid YAML: end of sequence flow not found"},
      {"a.b=\"x", "command line:2:5: error: a.b: a quoted text is never closed"},
      {"a.b={x: 1, x: 2}", "command line:2:12: error: a.b: duplicate key 'x', first given at line 1"},
  };
  for (const auto& [argument, expected] : cases) {
    INFO(argument);
    CHECK(after(argument) == expected);
  }
}

TEST_CASE("overrides reach the parameters of components and are judged like the file") {
  const Read good(kGoodRecipe, {"model[0].conv2d.out_channels=16", "model[2].dropout=0.1", "optimizer.lr=0.5",
                                "device.threads=3", "optimizer.nesterov=true"});
  REQUIRE(good.problem() == "");
  CHECK(dynamic_cast<Sample::Conv&>(*good.sample.model[0]).out_channels == 16);
  CHECK(dynamic_cast<Sample::Dropout&>(*good.sample.model[2]).p == 0.1);
  CHECK(good.sample.optimizer->lr == 0.5);
  CHECK(good.sample.threads == 3);
  CHECK(to_string(good.sample.optimizer->origin_of("lr").where) == "command line:3:11");

  CHECK(Read(kGoodRecipe, {"run.seed=1", "optimizer.momentun=0"}).problem() ==
        "command line:2:11: error: optimizer: unknown key 'momentun'; did you mean 'momentum'?");
  CHECK(Read(kGoodRecipe, {"trainng.micro_batch_size=8"}).problem() ==
        "command line:1:1: error: unknown key 'trainng'; did you mean 'training'?");
  CHECK(Read(kGoodRecipe, {"training.micro_batch_size=0"}).problem() ==
        "command line:1:10: error: training.micro_batch_size: must be at least 1, got 0");
}

}  // namespace trainer
