// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/tasks/task.h"
#include "tests/catch.h"

namespace trainer {
namespace {

std::vector<PredictedField> predict(const std::vector<float>& logits, const PredictionRequest& request) {
  return task_for({1, 3}, TargetKind::label_set).predict(logits, request);
}

}  // namespace

TEST_CASE("of several labels, those above one half are predicted, with the probability of each class") {
  const std::vector<std::string> names{"cat", "dog", "car"};
  const std::vector<float> logits{0.5f, 0, 3000};
  const auto fields = predict(logits, {.top = std::nullopt, .class_names = names});
  REQUIRE(fields.size() == 3);
  CHECK((fields[0].name == "classes" && fields[1].name == "names" && fields[2].name == "probabilities"));
  CHECK(std::get<std::vector<int64_t>>(fields[0].value) == std::vector<int64_t>{0, 2});
  CHECK(std::get<std::vector<std::string>>(fields[1].value) == std::vector<std::string>{"cat", "car"});
  const auto& probabilities = std::get<std::vector<double>>(fields[2].value);
  REQUIRE(probabilities.size() == 3);
  CHECK(probabilities[0] == Approx(1 / (1 + std::exp(-0.5))).epsilon(1e-12));
  CHECK(probabilities[1] == 0.5);
  CHECK(probabilities[2] == 1);
}

TEST_CASE(
    "of several labels, some of the probabilities can be asked for, and none need be predicted or named") {
  const std::vector<std::string> none;
  const auto fields = predict({-1, -3, -2}, {.top = 2, .class_names = none});
  REQUIRE(fields.size() == 2);
  CHECK(std::get<std::vector<int64_t>>(fields[0].value).empty());
  const auto& pairs = std::get<PredictedField::Pairs>(fields[1].value);
  REQUIRE(pairs.size() == 2);
  CHECK((pairs[0].first == 0 && pairs[1].first == 2));
  CHECK(pairs[1].second == Approx(1 / (1 + std::exp(2.0))).epsilon(1e-12));
}

}  // namespace trainer
