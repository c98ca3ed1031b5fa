// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/confusion_matrix.h"

#include "core/tasks/classification.h"
#include "tests/catch.h"
#include "tests/ops/fixture.h"

namespace trainer {
namespace {

ConfusionMatrix matrix_of(int64_t classes, const std::vector<float>& labels,
                          const std::vector<float>& predicted) {
  std::vector<int32_t> cells;
  for (size_t i = 0; i < labels.size(); ++i)
    cells.push_back(static_cast<int32_t>(labels[i]) * static_cast<int32_t>(classes) +
                    static_cast<int32_t>(predicted[i]));
  ConfusionMatrix matrix(classes);
  matrix.add(cells);
  return matrix;
}

double metric_of(const ConfusionMatrix& matrix, const std::string& name) {
  return find_metric(confusion_metrics(), name)->of_matrix(matrix);
}

}  // namespace

TEST_CASE("confusion matrix and all scores are scikit-learn's") {
  const Fixture fixture("metrics");
  for (const std::string name : {"all_classes", "missing_classes", "one_class", "never_right"}) {
    INFO(name);
    const auto expected = [&](const std::string& what) { return fixture.doubles(name + "/" + what); };
    const int64_t classes = fixture.shape(name + "/support")[0];
    const ConfusionMatrix matrix =
        matrix_of(classes, fixture.values(name + "/labels"), fixture.values(name + "/predicted"));
    const std::vector<double> counts = expected("matrix");
    const std::vector<ClassScores> scores = matrix.scores();
    for (int64_t label = 0; label < classes; ++label) {
      INFO(label);
      const auto at = static_cast<size_t>(label);
      for (int64_t c = 0; c < classes; ++c)
        CHECK(static_cast<double>(matrix.at(label, c)) == counts[static_cast<size_t>(label * classes + c)]);
      CHECK(scores[at].precision == Approx(expected("precision")[at]).margin(1e-7));
      CHECK(scores[at].recall == Approx(expected("recall")[at]).margin(1e-7));
      CHECK(scores[at].f1 == Approx(expected("f1")[at]).margin(1e-7));
      CHECK(scores[at].jaccard == Approx(expected("iou")[at]).margin(1e-7));
      CHECK(static_cast<double>(scores[at].support) == expected("support")[at]);
    }
    for (const std::string& metric : names_of(confusion_metrics())) {
      INFO(metric);
      CHECK(metric_of(matrix, metric) == Approx(expected(metric)[0]).margin(1e-7));
    }
    CHECK(weighted_mean(matrix, &ClassScores::precision) ==
          Approx(expected("weighted_precision")[0]).margin(1e-7));
    CHECK(weighted_mean(matrix, &ClassScores::f1) == Approx(expected("weighted_f1")[0]).margin(1e-7));
    CHECK(static_cast<double>(matrix.correct()) / static_cast<double>(matrix.total()) ==
          Approx(expected("accuracy")[0]));
  }
}

TEST_CASE("a confusion matrix leaves out negative cells, and an empty one has scores of 0") {
  ConfusionMatrix matrix(2);
  CHECK(metric_of(matrix, "macro_f1") == 0);
  CHECK(metric_of(matrix, "balanced_accuracy") == 0);
  CHECK(weighted_mean(matrix, &ClassScores::f1) == 0);
  matrix.add(std::vector<int32_t>{-1, 3, -1, 2});
  CHECK(matrix.total() == 2);
  CHECK(matrix.at(1, 1) == 1);
  CHECK(matrix.at(1, 0) == 1);
  CHECK((matrix.tallies()[0].predicted == 1 && matrix.tallies()[1].predicted == 1));
  matrix.clear();
  CHECK(matrix.total() == 0);
}

TEST_CASE("of sets of labels, matrix and all scores are scikit-learn's") {
  const Fixture fixture("label_set_metrics");
  for (const std::string name : {"some", "missing", "perfect", "no_labels"}) {
    INFO(name);
    const auto expected = [&](const std::string& what) { return fixture.doubles(name + "/" + what); };
    const std::vector<double> labels = expected("labels"), predicted = expected("predicted");
    const int64_t classes = fixture.shape(name + "/labels")[1];
    std::vector<int32_t> cells;
    for (size_t i = 0; i < labels.size(); ++i) {
      cells.push_back(static_cast<int32_t>(4 * (static_cast<int64_t>(i) % classes) +
                                           2 * static_cast<int64_t>(labels[i]) +
                                           static_cast<int64_t>(predicted[i])));
    }
    cells.insert(cells.end(), static_cast<size_t>(classes), -1);  // a sample that does not count
    ConfusionMatrix matrix({classes, true});
    matrix.add(cells);
    const std::vector<double> counts = expected("matrix");
    const std::vector<ClassScores> scores = matrix.scores();
    for (int64_t c = 0; c < classes; ++c) {
      INFO(c);
      const auto at = static_cast<size_t>(c);
      for (int i = 0; i < 4; ++i)
        CHECK(static_cast<double>(matrix.of_class(c, i / 2, i % 2)) ==
              counts[4 * at + static_cast<size_t>(i)]);
      CHECK(scores[at].precision == Approx(expected("precision")[at]).margin(1e-7));
      CHECK(scores[at].recall == Approx(expected("recall")[at]).margin(1e-7));
      CHECK(scores[at].f1 == Approx(expected("f1")[at]).margin(1e-7));
      CHECK(scores[at].jaccard == Approx(expected("iou")[at]).margin(1e-7));
      CHECK(static_cast<double>(scores[at].support) == expected("support")[at]);
    }
    for (const Metric& metric : label_set_metrics()) {
      INFO(metric.name);
      CHECK(metric.of_matrix(matrix) == Approx(expected(metric.name)[0]).margin(1e-7));
    }
    CHECK(weighted_mean(matrix, &ClassScores::f1) == Approx(expected("weighted_f1")[0]).margin(1e-7));
  }
}

TEST_CASE("of sets of labels, a matrix in JSON has two rows for each class, and an empty one scores of 0") {
  ConfusionMatrix matrix({2, true});
  for (const Metric& metric : label_set_metrics()) CHECK(metric.of_matrix(matrix) == 0);
  matrix.add(std::vector<int32_t>{3, 4, 1, 7});
  CHECK(matrix.samples() == 2);
  CHECK(matrix.exact() == 1);
  CHECK(to_json(matrix, {"cat", "dog"})
            .dump()
            .starts_with(
                R"({"classes":["cat","dog"],"matrix":[[[0,1],[0,1]],[[1,0],[0,1]]],"precision":[0.5,1.0],)"));
  matrix.clear();
  CHECK(matrix.samples() == 0);
}

TEST_CASE("a confusion matrix in JSON has a row for each label, and names where each class has one") {
  const ConfusionMatrix matrix = matrix_of(2, {0, 1, 1}, {0, 0, 1});
  CHECK(to_json(matrix, {"cat", "dog"}).dump() ==
        R"({"classes":["cat","dog"],"matrix":[[1,0],[1,1]],"precision":[0.5,1.0],"recall":[1.0,0.5],)"
        R"("f1":[0.6666666666666666,0.6666666666666666],"iou":[0.5,0.5],"support":[1,2]})");
  CHECK(!to_json(matrix, {"cat"}).contains("classes"));
}

TEST_CASE("IoU and Dice of masks are torchmetrics', with an ignored value and over parts of the pixels") {
  const Fixture fixture("mask_metrics");
  for (const std::string name :
       {"all_count", "border_ignored", "class_ignored", "classes_absent", "never_right"}) {
    INFO(name);
    const std::vector<double> iou = fixture.doubles(name + "/iou"), f1 = fixture.doubles(name + "/f1");
    const auto classes = static_cast<int64_t>(iou.size());
    const std::vector<float> labels = fixture.values(name + "/labels"),
                             predicted = fixture.values(name + "/predicted");
    const auto ignored = static_cast<int64_t>(fixture.doubles(name + "/ignored")[0]);
    ConfusionShape shape(classes);
    if (ignored < classes) shape.ignored = ignored;
    ConfusionMatrix matrix(shape);
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto label = static_cast<int64_t>(labels[i]);
      const auto cell = static_cast<int32_t>(label * classes + static_cast<int64_t>(predicted[i]));
      matrix.add(std::vector<int32_t>{label == ignored ? -1 : cell});
    }
    const std::vector<ClassScores> scores = matrix.scores();
    for (size_t c = 0; c < iou.size(); ++c) {
      CHECK(scores[c].jaccard == Approx(iou[c]).margin(1e-6));
      CHECK(scores[c].f1 == Approx(f1[c]).margin(1e-6));
    }
    CHECK(metric_of(matrix, "mean_iou") == Approx(fixture.doubles(name + "/mean_iou")[0]).margin(1e-6));
    const double dice = find_metric(mask_metrics(), "dice")->of_matrix(matrix);
    CHECK(dice == Approx(fixture.doubles(name + "/dice")[0]).margin(1e-6));
  }
}

}  // namespace trainer
