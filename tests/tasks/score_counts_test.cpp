// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/score_counts.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/ops/fixture.h"

namespace trainer {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Floats = std::vector<float>;

ScoreCounts counted(const ScoreShape& shape, const Floats& logits, const Floats& labels,
                    Floats weights = {}) {
  if (weights.empty()) weights.assign(logits.size() / static_cast<size_t>(shape.classes), 1);
  ScoreCounts counts(shape);
  counts.add({.logits = logits, .labels = labels, .targets = labels, .weights = weights});
  return counts;
}

/// Of two classes, from the second one's logits.
double area_of(const Floats& scores, const Floats& labels) {
  Floats logits;
  for (const float score : scores) logits.insert(logits.end(), {0, score});
  return counted({.classes = 2, .ranks = true}, logits, labels).auroc();
}

}  // namespace

TEST_CASE("auroc is scikit-learn's, and the calibration error that of its definition") {
  const Fixture fixture("scores");
  for (const std::string name : {"binary", "classes", "confident", "ties", "missing", "sets"}) {
    INFO(name);
    const ScoreShape shape{
        .classes = fixture.shape(name + "/logits")[1], .of_sets = name == "sets", .ranks = true};
    const Floats logits = fixture.values(name + "/logits"), labels = fixture.values(name + "/labels");
    ScoreCounts counts = counted(shape, logits, labels);
    CHECK(std::abs(counts.auroc() - fixture.doubles(name + "/auroc")[0]) < 1e-5);
    CHECK(std::abs(counts.ece() - fixture.doubles(name + "/ece")[0]) < 1e-5);
    counts.clear();
    CHECK(std::isnan(counts.auroc()));
    CHECK(std::isnan(counts.ece()));
  }
}

TEST_CASE("auroc counts a tie half, and is not defined for a single class") {
  CHECK(area_of({1, 2, 3, 4}, {0, 0, 1, 1}) == 1);
  CHECK(area_of({4, 3, 2, 1}, {0, 0, 1, 1}) == 0);
  CHECK(area_of({5, 5, 5, 5}, {0, 1, 0, 1}) == 0.5);
  CHECK(area_of({1, 2, 2, 3}, {0, 0, 1, 1}) == 0.875);
  CHECK(std::isnan(area_of({1, 2}, {0, 0})));
  CHECK(std::isnan(area_of({1, 2}, {1, 1})));
  CHECK(area_of({-kInfinity, 900, 1e30f, 3e38f}, {0, 0, 1, 1}) == 1);
  // The third class has no sample: the mean is that of the others.
  CHECK(counted({.classes = 3, .ranks = true}, {2, 0, 0, 0, 2, 0}, {0, 1}).auroc() == 1);
}

TEST_CASE("a NaN among the logits makes both metrics NaN, padding and ignored labels do not count") {
  const ScoreShape shape{.classes = 2, .ranks = true, .ignored_label = 9};
  const Floats logits = {0, 1, 1, 0, NAN, 0, 0, NAN};
  CHECK(std::isnan(counted(shape, logits, {1, 0, 0, 1}).auroc()));
  CHECK(std::isnan(counted(shape, logits, {1, 0, 0, 1}).ece()));
  CHECK(std::isnan(counted(shape, {0, kInfinity}, {1}).ece()));
  CHECK(counted(shape, logits, {1, 0, 0, 9}, {1, 1, 0, 1}).auroc() == 1);
  CHECK(std::isnan(counted({.classes = 1, .of_sets = true, .ranks = true}, {NAN, 1}, {0, 1}).auroc()));
}

TEST_CASE("a sure and right network has no calibration error, a sure and wrong one an error of 1") {
  for (const float margin : {40.0f, 1000.0f, 3e38f}) {
    INFO(margin);
    CHECK(counted({.classes = 2}, {margin, 0, 0, margin}, {0, 1}).ece() == Approx(0).margin(1e-9));
    CHECK(counted({.classes = 2}, {margin, 0, 0, margin}, {1, 0}).ece() == Approx(1));
  }
  CHECK(counted({.classes = 4}, Floats(4, 0), {0}).ece() == Approx(0.75));
}

TEST_CASE("counts of parts add up to those of the whole, and their memory is bounded") {
  const Fixture fixture("scores");
  const ScoreShape shape{.classes = 5, .ranks = true};
  const Floats logits = fixture.values("classes/logits"), labels = fixture.values("classes/labels");
  ScoreCounts whole = counted(shape, logits, labels);
  constexpr size_t kFirst = 61;
  ScoreCounts sum = counted(shape, {logits.begin(), logits.begin() + 5 * kFirst},
                            {labels.begin(), labels.begin() + kFirst}),
              rest = counted(shape, {logits.begin() + 5 * kFirst, logits.end()},
                             {labels.begin() + kFirst, labels.end()});
  for (size_t i = 0; i < sum.counts().size(); ++i) sum.counts()[i] += rest.counts()[i];
  CHECK(std::ranges::equal(sum.counts(), whole.counts()));
  CHECK(sum.ece() == whole.ece());
  for (const int64_t classes : {1, 2, 3, 16, 17, 1000, 4096, 1000000}) {
    INFO(classes);
    CHECK(ScoreShape{.classes = classes, .ranks = true}.bytes() < (int64_t{257} << 20));
  }
  CHECK(ScoreShape{.classes = 16, .ranks = true}.bins() == int64_t{1} << 20);
  CHECK(ScoreShape{.classes = 1000}.bytes() < 1000);
}

}  // namespace trainer
