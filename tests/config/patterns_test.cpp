// SPDX-License-Identifier: Apache-2.0
#include "core/config/patterns.h"

#include "tests/catch.h"

namespace trainer {
namespace {

const std::vector<std::string> kNames = {"conv1.weight",          "bn1.weight", "layer1.0.conv1.weight",
                                         "layer1.1.conv1.weight", "fc.weight",  "fc.bias"};

std::vector<std::string> problems_of(const std::vector<std::string>& patterns) {
  Diagnostics diagnostics;
  check_patterns(patterns, kNames, "parameter", {{.file = "r.yaml", .line = 3, .column = 5}, "model.freeze"},
                 diagnostics);
  return diagnostics.problems();
}

std::string problem_of(const std::string& pattern) {
  const std::vector<std::string> problems = problems_of({pattern});
  REQUIRE(problems.size() == 1);
  return problems[0];
}

}  // namespace

TEST_CASE("a star is any text, dots included; other characters stand for themselves") {
  CHECK(matches("layer1.*", "layer1.0.conv1.weight"));
  CHECK(matches("*.bias", "fc.bias"));
  CHECK(matches("*", ""));
  CHECK(matches("fc.bia?", "fc.bias"));
  CHECK(matches("layer[12].*", "layer2.0"));
  CHECK_FALSE(matches("layer1.*", "layer10.0"));
  CHECK_FALSE(matches("layer1", "layer1.0"));
  CHECK_FALSE(matches("fc.weight", "fc-weight"));
  CHECK(matches_any({"a", "fc.*"}, "fc.bias"));
  CHECK_FALSE(matches_any({}, "fc.bias"));
}

TEST_CASE("a pattern that nothing matches is told with the nearest that something would") {
  CHECK(problems_of({"fc.*", "*conv1*", "fc.weight"}).empty());
  CHECK(problem_of("layr1.*") ==
        "r.yaml:3:5: error: model.freeze: no parameter matches 'layr1.*'; did you mean 'layer1.*'?");
  CHECK(problem_of("layer1.0.conv2.*").find("did you mean 'layer1.0.conv1.*'?") != std::string::npos);
  CHECK(problem_of("fc.wieght").find("did you mean 'fc.weight'?") != std::string::npos);
  CHECK(problem_of("transformer.*").find("; available: conv1.*, bn1.*, layer1.*, fc.*") != std::string::npos);
  CHECK(problem_of("*.gamma").find("; available: conv1.*") != std::string::npos);  // not the text as written
  CHECK(problem_of("").find("no parameter matches ''") != std::string::npos);
  CHECK(problems_of({"x.*", "fc.*", "y.*"}).size() == 2);
}

}  // namespace trainer
