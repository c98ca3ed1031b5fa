// SPDX-License-Identifier: Apache-2.0
#include "core/config/templates.h"

#include "tests/catch.h"

#include <algorithm>

#include "core/config/expression.h"

namespace trainer {
namespace {

/// Layers as they are written out, and all errors.
struct Written {
  explicit Written(const std::string& text) {
    Diagnostics diagnostics;
    Reading reading;
    Value network = parse_yaml(text, "n", diagnostics);
    expand_templates(network, "net", {"conv", "relu", "add", "drop"}, reading);
    reading.finish(diagnostics);
    for (const std::string& problem : diagnostics.problems()) problems += problem + "\n";
    const Value* list = network.find("layers");
    if (list != nullptr) layers = to_yaml(*list, false);
  }
  std::string layers, problems;
};

void check_layers(const std::string& text, const std::string& expected) {
  const Written written(text);
  INFO(text);
  CHECK(written.problems == "");
  CHECK(written.layers == expected);
}

void check_problem(const std::string& text, const std::string& expected) {
  INFO(text);
  CHECK(Written(text).problems == expected + "\n");
}

std::string problem_of_expression(const std::string& expression, const Scope& scope = {}) {
  try {
    return "no problem: " + evaluate(expression, scope);
  } catch (const BadExpression& bad) {
    return bad.text;
  }
}

constexpr const char* kBlock = R"(templates:
  block:
    arguments: {width: , stride: 1}
    layers:
      - conv: {name: a, width: "${width * 2}", stride: "${stride}"}
      - relu
      - add: {inputs: [a, input]}
)";

}  // namespace

TEST_CASE("expressions compute with whole numbers") {
  const Scope scope = {{"c", "64"}, {"yes", "true"}, {"p", "0.25"}};
  for (const auto& [expression, value] : std::vector<std::pair<std::string, std::string>>{
           {"${c}", "64"},
           {"${c * 4 + 2}", "258"},
           {"${2 + c * 4}", "258"},
           {"${(c + 2) * -4}", "-264"},
           {"${10 - 3 - 2}", "5"},
           {"${100 / 8 / 3}", "4"},
           {"${-7 / 2}", "-3"},
           {"${7 % 4}", "3"},
           {"${- -3}", "3"},
           {"${c == 64}", "true"},
           {"${c != 64}", "false"},
           {"${c + 1 <= 65}", "true"},
           {"${c<64}", "false"},
           {"${c >= 65}", "false"},
           {"${c > 63}", "true"},
           {"${yes == false}", "false"},
           {"${yes}", "true"},
           {"${p}", "0.25"},
           {"${(p)}", "0.25"},
           {"block${c / 64}.conv${1}", "block1.conv1"},
           {"${9223372036854775807}", "9223372036854775807"},
       }) {
    INFO(expression);
    CHECK(problem_of_expression(expression, scope) == "no problem: " + value);
  }
}

TEST_CASE("an expression that cannot be computed says why") {
  const Scope scope = {{"c", "64"}, {"yes", "true"}, {"p", "0.25"}};
  CHECK(problem_of_expression("${c / (c - 64)}", scope) == "64 / 0: division by zero");
  CHECK(problem_of_expression("${c % 0}", scope) == "64 % 0: division by zero");
  CHECK(problem_of_expression("${9223372036854775807 + 1}") == "9223372036854775807 + 1 is beyond 64 bits");
  CHECK(problem_of_expression("${(-9223372036854775807 - 1) / -1}") ==
        "-9223372036854775808 / -1 is beyond 64 bits");
  CHECK(problem_of_expression("${d + 1}", scope) == "in ${d + 1}: unknown name 'd'");
  CHECK(problem_of_expression("${p * 2}", scope) ==
        "in ${p * 2}: '*' takes two whole numbers, got 0.25 and 2");
  CHECK(problem_of_expression("${yes + 1}", scope) ==
        "in ${yes + 1}: '+' takes two whole numbers, got true and 1");
  CHECK(problem_of_expression("${1 == true}") ==
        "in ${1 == true}: '==' takes two whole numbers, got 1 and true");
  CHECK(problem_of_expression("${c c}", scope) == "in ${c c}: expected an operator, found 'c'");
  CHECK(problem_of_expression("${1 +}") == "in ${1 +}: expected a whole number or a name");
  CHECK(problem_of_expression("${}") == "in ${}: expected a whole number or a name");
  CHECK(problem_of_expression("${(1}") == "in ${(1}: expected ')'");
  CHECK(problem_of_expression("${1 < 2 < 3}") == "in ${1 < 2 < 3}: expected an operator, found '< 3'");
  CHECK(problem_of_expression("${1.5}") == "in ${1.5}: expected an operator, found '.5'");
  CHECK(problem_of_expression("${0x10}") == "in ${0x10}: expected a whole number or a name, found '0x10'");
  CHECK(problem_of_expression("${99999999999999999999}") ==
        "in ${99999999999999999999}: expected a whole number or a name, found '99999999999999999999'");
  CHECK(problem_of_expression("a ${1") == "expected '}' after '${'");
  CHECK(problem_of_expression("${" + std::string(5000, '(') + "}").find("nested deeper than 64 levels") !=
        std::string::npos);
  CHECK(problem_of_expression("${" + std::string(5000, '-') + "1}").find("nested deeper than 64 levels") !=
        std::string::npos);
}

TEST_CASE("a use stands for its layers, named and connected as one block") {
  check_layers(std::string(kBlock) + R"(layers:
  - conv: {name: stem}
  - block: {name: one, width: 4}
  - block: {name: two, width: 8, stride: 2}
  - add: {inputs: [one, two]}
)",
               R"(- conv:
    name: stem
- conv:
    name: one.a
    width: 8
    stride: 1
- relu
- add:
    inputs: [one.a, stem]
- conv:
    name: two.a
    width: 16
    stride: 2
- relu
- add:
    inputs: [two.a, 3]
- add:
    inputs: [3, 6]
)");
}

TEST_CASE("a use without a name leaves its layers' names, and one with an input reads it") {
  check_layers(std::string(kBlock) + R"(layers:
  - relu: {name: early}
  - relu
  - block: {width: 1, inputs: [early]}
  - relu: {inputs: [a]}
)",
               R"(- relu:
    name: early
- relu
- conv:
    name: a
    width: 2
    stride: 1
    inputs: [early]
- relu
- add:
    inputs: [a, early]
- relu:
    inputs: [a]
)");
}

TEST_CASE("an output of a layer is named within a use and behind it") {
  check_layers(R"(templates:
  block:
    layers:
      - conv: {name: a}
      - relu: {inputs: ["a:1"]}
      - add: {inputs: [input, "a:2"]}
layers:
  - conv: {name: stem}
  - block: {name: one, inputs: ["stem:1"]}
  - relu: {inputs: ["one:1"]}
)",
               R"(- conv:
    name: stem
- conv:
    name: one.a
    inputs:
      - stem:1
- relu:
    inputs: ["one.a:1"]
- add:
    inputs:
      - stem:1
      - "one.a:2"
- relu:
    inputs: ["3:1"]
)");
}

TEST_CASE("a name of very many colons is one name") {
  const std::string name(200'000, ':');
  const Written written("layers:\n  - conv: {name: a}\n  - relu: {inputs: [\"" + name + "\"]}\n");
  CHECK(written.problems == "");
  CHECK(written.layers.find(name) != std::string::npos);
}

TEST_CASE("mistakes in a template of many layers with many uses are each told once") {
  // Comparing each with all others would take 10^9 comparisons.
  std::string text = "templates:\n  block:\n    layers:\n";
  for (int i = 0; i < 250; ++i) text += "      - conv: {}\n        whenn: true\n";
  text += "layers:\n";
  for (int i = 0; i < 250; ++i) text += "  - block\n";
  const std::string problems = Written(text).problems;
  CHECK(std::ranges::count(problems, '\n') == 250);
}

TEST_CASE("what `when` leaves out hands on its first input; `repeat` counts from 0") {
  check_layers(R"(templates:
  step:
    arguments: {n: , on: }
    layers:
      - conv: {name: c}
      - drop: {name: d, p: "${n}"}
        when: ${on}
      - conv: {name: side, inputs: [input], k: "${1 / n}"}
        when: ${n != 0}
      - add: {inputs: [d, side]}
layers:
  - relu: {name: stem}
  - step: {name: "s${index}", n: "${index}", on: "${index == 1}"}
    repeat: 2
  - relu
    # nothing
  - conv: {k: 1}
    repeat: 0
)",
               R"(- relu:
    name: stem
- conv:
    name: s0.c
- add:
    inputs: [s0.c, stem]
- conv:
    name: s1.c
- drop:
    name: s1.d
    p: 1
- conv:
    name: s1.side
    inputs: [2]
    k: 1
- add:
    inputs: [s1.d, s1.side]
- relu
)");
}

TEST_CASE("a template without any layer left hands on its input") {
  check_layers(R"(templates: {none: {arguments: {on: false}, layers: [{conv: {name: c}, when: "${on}"}]}}
layers:
  - conv: {name: stem}
  - relu
  - none: {name: n, inputs: [stem]}
  - relu
  - add: {inputs: [n, input]}
)",
               R"(- conv:
    name: stem
- relu
- relu:
    inputs: [stem]
- add:
    inputs: [stem, input]
)");
}

TEST_CASE("a use's mistakes stand at the use") {
  const std::string block = kBlock;
  check_problem(block + "layers:\n- block: {widht: 4}\n",
                "n:9:11: error: net.layers[0].block: unknown key 'widht'; did you mean 'width'?");
  check_problem(block + "layers:\n- block: {stride: 4}\n",
                "n:9:10: error: net.layers[0].block: missing key 'width', expected a number, true or false");
  check_problem(block + "layers:\n- relu\n- block\n",
                "n:10:3: error: net.layers[1].block: missing key 'width', expected a number, true or false");
  check_problem(block + "layers:\n- block: {width: wide}\n",
                "n:9:11: error: net.layers[0].block.width: expected a number, true or false, found 'wide'");
  check_problem(block + "layers:\n- block: {width: \"4\"}\n",
                "n:9:11: error: net.layers[0].block.width: expected a number, true or false, found the "
                "quoted text '4'");
  check_problem(
      block + "layers:\n- block: {width: 1, inputs: [a, b]}\n",
      "n:9:21: error: net.layers[0].block.inputs: expected a list of one name: a template takes one input");
  check_problem(block + "layers:\n- block: 4\n",
                "n:9:3: error: net.layers[0].block: expected a map of arguments, found '4'");
  check_problem(block + "layers:\n- blok: {width: 1}\n- block: {width: 1}\n",
                "n:9:3: error: net.layers[0].blok: unknown name 'blok'; did you mean 'block'?");
  check_problem(block + "layers:\n- block: {width: \"${index}\"}\n",
                "n:9:11: error: net.layers[0].block.width: in ${index}: unknown name 'index'; it is defined "
                "only for a layer with `repeat`");
  check_problem(block + "layers:\n- relu\n- conv: {k: \"${width}\"}\n",
                "n:10:10: error: net.layers[1].conv.k: in ${width}: unknown name 'width'");
}

TEST_CASE("mistakes in `when` and `repeat`") {
  check_problem("layers:\n- conv: {}\n  repaet: 2\n",
                "n:3:3: error: net.layers[0]: unknown key 'repaet'; did you mean 'repeat'?");
  check_problem(
      "layers:\n- conv: {}\n  repeat: -1\n",
      "n:3:3: error: net.layers[0].repeat: expected how often, a whole number of at least 0, found '-1'");
  check_problem(
      "layers:\n- conv: {}\n  repeat: [2]\n",
      "n:3:3: error: net.layers[0].repeat: expected how often, a whole number of at least 0, found a list");
  check_problem("layers:\n- conv: {}\n  when: 1\n",
                "n:3:3: error: net.layers[0].when: expected true or false, found '1'");
  check_problem("layers:\n- when: true\n",
                "n:2:3: error: net.layers[0]: expected a layer beside 'when', found none");
}

TEST_CASE("mistakes in a definition are told once, whatever uses it") {
  const std::string uses = "layers:\n- t: {a: 1}\n- t: {a: 2}\n";
  check_problem("templates: {t: {arguments: {a: }, layers: [{conv: {k: \"${other}\"}}]}}\n" + uses,
                "n:1:52: error: net.templates.t.layers[0].conv.k: unknown name 'other'; known: a");
  check_problem("templates: {t: {arguments: {width: }, layers: [{conv: {k: \"${widht}\"}}]}}\n" + uses,
                "n:1:29: error: net.templates.t.arguments: unknown key 'width'; did you mean 'widht'?");
  check_problem(
      "templates: {t: {arguments: {a: }, layers: [{conv: {k: \"${a +}\"}}]}}\n" + uses,
      "n:1:52: error: net.templates.t.layers[0].conv.k: in ${a +}: expected a whole number or a name");
  check_problem("templates: {t: {arguments: {a: [1]}, layers: [relu]}}\n" + uses,
                "n:1:29: error: net.templates.t.arguments.a: expected a number, true, false, or nothing "
                "(required), found a list");
  check_problem(
      "templates: {t: {arguments: {name: 1}, layers: [relu]}}\n" + uses,
      "n:1:29: error: net.templates.t.arguments.name: an argument cannot have this name; use letters, "
      "digits and _");
  check_problem(
      "templates: {t: {arguments: {a: 1}}}\n" + uses,
      "n:1:16: error: net.templates.t: missing key 'layers', expected a list (the template's layers in "
      "order)");
  check_problem("templates: {t: {arguments: {a: 1}, layers: relu}}\n" + uses,
                "n:1:36: error: net.templates.t.layers: expected a list of layers, found 'relu'");
  check_problem("templates: {t: {argument: {a: 1}, layers: [conv: {k: \"${a}\"}]}}\n" + uses,
                "n:1:17: error: net.templates.t: unknown key 'argument'; did you mean 'arguments'?");
  check_problem("templates: {tx: 4}\nlayers: [relu]\n",
                "n:1:13: error: net.templates.tx: expected a map with `arguments` and `layers`, found '4'");
  check_problem("templates: {relu: {layers: [relu]}}\nlayers: [conv]\n",
                "n:1:13: error: net.templates.relu: a layer is called 'relu'; choose another name");
  check_problem(
      "templates: [t]\n" + uses,
      "n:1:1: error: net.templates: expected a map of templates, or a network's file that has them, found "
      "a list");
  check_problem("templates: {blockx: {layers: [relu]}}\nlayers: [block, block]\n",
                "n:1:13: error: net.templates: unknown key 'blockx'; did you mean 'block'?");
}

TEST_CASE("mistakes that a use brings about name the place in the template and the use") {
  const std::string inner = "templates:\n  i: {arguments: {a: }, layers: [{conv: {k: \"${8 / a}\"}}]}\n";
  check_problem(inner + "layers:\n- i: {a: 2}\n- i: {a: 0}\n",
                "n:2:42: error: net.templates.i.layers[0].conv.k: 8 / 0: division by zero; used at n:5:3");
  check_problem(
      inner +
          "  o: {arguments: {b: }, layers: [{i: {a: \"${b - 2}\"}}]}\nlayers:\n- o: {b: 2}\n- o: {b: 2}\n",
      "n:2:42: error: net.templates.i.layers[0].conv.k: 8 / 0: division by zero; used at n:3:35; used at "
      "n:5:3");
}

TEST_CASE("templates end: no recursion, no explosion") {
  check_problem("templates: {a: {layers: [b]}, b: {layers: [relu, a]}}\nlayers: [a]\n",
                "n:1:50: error: net.templates.b.layers[1].a: a template cannot use itself: a > b > a; used "
                "at n:1:26; used at "
                "n:2:10");
  std::string nested = "templates:\n  t0: {layers: [relu]}\n";
  for (int i = 1; i <= 70; ++i) {
    nested += "  t" + std::to_string(i) + ": {layers: [t" + std::to_string(i - 1) + "]}\n";
  }
  CHECK(Written(nested + "layers: [t70]\n").problems.find("templates nested deeper than 64 levels") !=
        std::string::npos);
  CHECK(Written(nested + "layers: [t60]\n").layers == "[relu]\n");
  std::string doubling = "templates:\n  t0: {layers: [relu, relu]}\n";
  for (int i = 1; i <= 40; ++i) {
    const std::string before = "t" + std::to_string(i - 1);
    doubling += "  t" + std::to_string(i) + ": {layers: [" + before + ", " + before + "]}\n";
  }
  for (const std::string& text :
       {doubling + "layers: [t40]\n", std::string("layers:\n- relu:\n  repeat: 1000000000000\n"),
        std::string("layers:\n- relu:\n  when: false\n  repeat: 1000000000000\n")}) {
    const std::string problems = Written(text).problems;
    INFO(problems);
    CHECK(problems.find("too many layers: more than 250000 keys and values") != std::string::npos);
    CHECK(std::count(problems.begin(), problems.end(), '\n') == 1);
  }
}

}  // namespace trainer
