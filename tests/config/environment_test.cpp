// SPDX-License-Identifier: Apache-2.0
#include "core/config/environment.h"

#include <stdlib.h>

#include <filesystem>

#include "core/config/fields.h"
#include "core/config/messages.h"
#include "tests/catch.h"
#include "tests/config/sample.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

std::map<std::string, std::string> identity_of(const std::string& text) {
  const Read read(text);
  REQUIRE(read.problem() == "");
  return leaves(read.fields.resolved(Fields::Form::identity));
}

std::string with_rate(const std::string& rate) {
  return replaced(kGoodRecipe, "lr: 1e-2", "lr: " + rate);
}

}  // namespace

TEST_CASE("a run's identity holds a hash of a value from the environment") {
  const auto lr_where = [](const char* value) {
    setenv("TRAINER_TEST_LR", value, 1);
    return identity_of(with_rate("${env:TRAINER_TEST_LR}")).at("optimizer.lr");
  };
  const std::string hidden = lr_where("0.01");
  CHECK_THAT(hidden, Catch::Matchers::Matches("env:[0-9a-f]{16}"));
  CHECK(is_hidden(hidden));
  CHECK(lr_where("1e-2") == hidden);
  CHECK(lr_where("0.011") != hidden);
  // A run that has the value itself is the same run; one that has another value is not.
  CHECK(is_same_leaf("optimizer.lr", identity_of(with_rate("0.01")).at("optimizer.lr"), hidden));
  CHECK(is_same_leaf("optimizer.lr", hidden, "0.01"));
  CHECK_FALSE(is_same_leaf("optimizer.lr", "0.011", hidden));
  CHECK_FALSE(is_same_leaf("optimizer.lr", "", hidden));
  CHECK_FALSE(is_same_leaf("optimizer.momentum", "0.01", hidden));
  CHECK_FALSE(is_same_leaf("optimizer.lr", lr_where("0.011"), hidden));
}

TEST_CASE("a list with a value from the environment is hidden as a whole") {
  setenv("TRAINER_TEST_LR", "top5", 1);
  const auto all = identity_of(
      replaced(kGoodRecipe, "metrics: [top1, top5]", "metrics: [top1, '${env:TRAINER_TEST_LR}']"));
  CHECK(is_hidden(all.at("training.metrics")));
  CHECK(is_same_leaf("training.metrics", all.at("training.metrics"), "[top1, top5]"));
}

TEST_CASE("messages show a value from the environment as it is written") {
  setenv("TRAINER_TEST_LR", "hunter2", 1);
  CHECK_THAT(Read(with_rate("${env:TRAINER_TEST_LR}")).problem(),
             ContainsSubstring("'${env:TRAINER_TEST_LR}'") && !ContainsSubstring("hunter2"));
  setenv("TRAINER_TEST_LR", "-17", 1);
  CHECK_THAT(Read(with_rate("${env:TRAINER_TEST_LR}")).problem(),
             ContainsSubstring("got ${env:TRAINER_TEST_LR}") && !ContainsSubstring("-17"));
}

TEST_CASE("a relative path from the environment becomes absolute unexpanded") {
  setenv("TRAINER_TEST_DIR", "hunter2", 1);
  const std::string here = std::filesystem::current_path().string();
  FilePath path = resolve_path("hunter2/x", {.file = "r.yaml"});
  CHECK(from_anywhere(path, "${env:TRAINER_TEST_DIR}/x") == here + "/${env:TRAINER_TEST_DIR}/x");
  FilePath list = resolve_list(resolve_path("hunter2/a,/b", {.file = "r.yaml"}));
  CHECK(from_anywhere(list, "${env:TRAINER_TEST_DIR}/a,/b") == here + "/${env:TRAINER_TEST_DIR}/a,/b");
}

}  // namespace trainer
