// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/ops/logit_sums.h"
#include "tests/ops/one_rank.h"

namespace trainer {
namespace {

using namespace test;

struct LossCase {
  int64_t classes;
  double smoothing;
  bool mixes;
  float planted;  ///< in place of a logit
};

/// The loss of logits whose classes ranks share, and its gradient.
void check_cross_entropy(const BackendOfRank& make, int64_t ranks, const LossCase& one) {
  constexpr int64_t kRows = 6;
  const int64_t own = (one.classes + ranks - 1) / ranks;
  const ClassCut cut{along(ranks), one.classes};
  std::vector<float> logits = numbers(21, kRows * one.classes);
  logits[static_cast<size_t>(one.classes + 1)] += one.planted;
  // In one row all classes of a rank are impossible.
  if (one.planted == -kInf)
    std::fill_n(logits.begin() + 5 * one.classes + own, std::min(own, one.classes - own), -kInf);
  std::vector<float> labels = integers(22, kRows, one.classes);
  if (one.planted == -kInf) labels[5] = 0;
  Inputs given{{"labels", labels}, {"weights", {1, 0.5f, 0, 2, 1, 1}}, {"dloss", {0.25f}}};
  if (one.mixes) {
    given["others"] = integers(23, kRows, one.classes);
    given["mix"] = {1, 0.75f, 0.5f, 0.25f, 1, 0.6f};
  }
  struct Targets {
    TensorId labels, weights, others = kNone, mix = kNone;
  };
  const auto targets = [&](Sketch& sketch) {
    Targets of{sketch.integers("labels", kRows, 1), sketch.input("weights", {kRows})};
    if (one.mixes) of.others = sketch.integers("others", kRows, 1), of.mix = sketch.input("mix", {kRows});
    return of;
  };
  Inputs all = given;
  all["logits"] = logits;
  Rank alone(make, 0, 1, [&](Sketch& sketch) {
    const Targets t = targets(sketch);
    const TensorId x = sketch.input("logits", {kRows, one.classes}), dloss = sketch.input("dloss", {1});
    const std::vector<TensorId> y = sketch.build().emit_all(std::make_shared<CrossEntropy>(one.smoothing),
                                                            {x, t.labels, t.weights, t.others, t.mix});
    sketch.output("loss", y[0]);
    sketch.output("largest", y[1]);
    sketch.output("exp_sum", y[2]);
    sketch.output("dlogits",
                  sketch.build().emit<CrossEntropyBackward>(
                      {dloss, x, t.labels, t.weights, t.others, t.mix, y[1], y[2]}, one.smoothing));
  });
  const Numbers loss = alone.run(all, "loss"), largest = alone.run(all, "largest"),
                exp_sum = alone.run(all, "exp_sum"), dlogits = alone.run(all, "dlogits");

  std::vector<float> sums;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Inputs inputs = given;
    inputs["logits"] = columns(logits, one.classes, rank * own, own);
    const Numbers found = run(
        make, rank, ranks,
        [&](Sketch& sketch) {
          const Targets t = targets(sketch);
          sketch.input("dloss", {1});
          sketch.output("y", sketch.build().emit<LogitSums>(
                                 {sketch.input("logits", {kRows, own}), t.labels, t.others, kNone}, cut));
        },
        inputs);
    for (const double each : found) sums.push_back(static_cast<float>(each));
  }
  std::vector<Numbers> gradients;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Inputs inputs = given;
    inputs["sums"] = sums;
    inputs["logits"] = columns(logits, one.classes, rank * own, own);
    Rank shared(make, rank, ranks, [&](Sketch& sketch) {
      const Targets t = targets(sketch);
      const TensorId of = sketch.input("sums", {ranks, kRows, LogitSum::kFields});
      const TensorId x = sketch.input("logits", {kRows, own}), dloss = sketch.input("dloss", {1});
      const std::vector<TensorId> y =
          sketch.build().emit_all(std::make_shared<CrossEntropyOfRanks>(one.smoothing, cut),
                                  {of, t.labels, t.weights, t.others, t.mix});
      sketch.output("loss", y[0]);
      sketch.output("largest", y[1]);
      sketch.output("exp_sum", y[2]);
      sketch.output("dlogits",
                    sketch.build().emit<CrossEntropyBackward>(
                        {dloss, x, t.labels, t.weights, t.others, t.mix, y[1], y[2]}, one.smoothing, cut));
    });
    check_near(shared.run(inputs, "loss")[0], loss[0], 1e-5);
    check_equal(shared.run(inputs, "largest"), largest);
    const Numbers found = shared.run(inputs, "exp_sum");
    for (size_t i = 0; i < found.size(); ++i) check_near(found[i], exp_sum[i], 1e-5);
    gradients.push_back(shared.run(inputs, "dlogits"));
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t c = 0; c < own; ++c) {
        if (rank * own + c >= one.classes) CHECK(gradients.back()[static_cast<size_t>(row * own + c)] == 0);
      }
    }
  }
  const Numbers joint = joined(gradients, one.classes, own);
  REQUIRE(joint.size() == dlogits.size());
  for (size_t i = 0; i < joint.size(); ++i) check_near(joint[i], dlogits[i], 1e-5);
}

/// What each rank finds in its classes, one after another.
std::vector<float> sums_of_ranks(const BackendOfRank& make, const ClassCut& cut, int64_t rows,
                                 const std::vector<float>& logits, const Inputs& given) {
  const int64_t ranks = cut.along.ranks, own = (cut.classes + ranks - 1) / ranks;
  std::vector<float> sums;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Inputs inputs{{"labels", given.at("labels")}, {"logits", columns(logits, cut.classes, rank * own, own)}};
    if (given.contains("classes")) inputs["classes"] = given.at("classes");
    const Numbers found = run(
        make, rank, ranks,
        [&](Sketch& sketch) {
          const TensorId labels = sketch.integers("labels", rows, 1);
          const TensorId weights = given.contains("classes") ? sketch.input("classes", {cut.classes}) : kNone;
          sketch.output("y", sketch.build().emit<LogitSums>(
                                 {sketch.input("logits", {rows, own}), labels, kNone, weights}, cut));
        },
        inputs);
    for (const double each : found) sums.push_back(static_cast<float>(each));
  }
  return sums;
}

/// cross_entropy_sums with labels to ignore, of classes that ranks share, and its gradient.
void check_cross_entropy_sums(const BackendOfRank& make, int64_t ranks, const LossCase& one) {
  constexpr int64_t kRows = 7;
  const std::vector<std::string> outputs = {"loss", "weight", "valid", "largest", "exp_sum"};
  const int64_t own = (one.classes + ranks - 1) / ranks;
  const ClassCut cut{along(ranks), one.classes};
  const CrossEntropySettings settings{.label_smoothing = one.smoothing, .ignore_index = -100};
  std::vector<float> logits = numbers(31, kRows * one.classes);
  logits[static_cast<size_t>(one.classes + 1)] += one.planted;
  Inputs given{{"labels", integers(32, kRows, one.classes)},
               {"weights", {1, 0.5f, 0, 2, 1, 1, 3}},
               {"dloss", {0.25f}}};
  given["labels"][3] = -100;
  if (one.mixes) {
    given["classes"] = numbers(33, one.classes);
    for (float& weight : given["classes"]) weight = std::abs(weight) + 0.1f;
  }
  const auto write = [&](const Shape& shape, int64_t of, bool is_cut) {
    return [=, &one](Sketch& sketch) {
      const TensorId labels = sketch.integers("labels", kRows, 1), weights = sketch.input("weights", {kRows});
      const TensorId classes = one.mixes ? sketch.input("classes", {one.classes}) : kNone;
      const TensorId x = sketch.input("logits", {kRows, of}), dloss = sketch.input("dloss", {1});
      std::vector<TensorId> y;
      if (is_cut) {
        y = sketch.build().emit_all(std::make_shared<CrossEntropySumsOfRanks>(settings, cut),
                                    {sketch.input("sums", shape), labels, weights, classes});
      } else {
        y = sketch.build().emit_all(std::make_shared<CrossEntropySums>(settings),
                                    {x, labels, weights, classes});
      }
      for (size_t i = 0; i < outputs.size(); ++i) sketch.output(outputs[i], y[i]);
      sketch.output("dlogits", sketch.build().emit<CrossEntropySumsBackward>(
                                   {dloss, x, labels, weights, classes, y[3], y[4]}, settings,
                                   is_cut ? std::optional(cut) : std::nullopt));
    };
  };
  Inputs all = given;
  all["logits"] = logits;
  Rank alone(make, 0, 1, write({}, one.classes, false));
  const std::vector<float> sums = sums_of_ranks(make, cut, kRows, logits, given);
  std::vector<Numbers> gradients;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Inputs inputs = given;
    inputs["sums"] = sums;
    inputs["logits"] = columns(logits, one.classes, rank * own, own);
    Rank shared(make, rank, ranks, write({ranks, kRows, LogitSum::kFields}, own, true));
    for (const char* output : {"loss", "weight", "valid"})
      check_near(shared.run(inputs, output)[0], alone.run(all, output)[0], 1e-5);
    gradients.push_back(shared.run(inputs, "dlogits"));
  }
  const Numbers joint = joined(gradients, one.classes, own), expected = alone.run(all, "dlogits");
  REQUIRE(joint.size() == expected.size());
  for (size_t i = 0; i < joint.size(); ++i) check_near(joint[i], expected[i], 1e-5);
}

/// Equal logits and NaN among them.
void check_top_k(const BackendOfRank& make, int64_t ranks, int64_t classes, int64_t k) {
  constexpr int64_t kRows = 9;
  const int64_t own = (classes + ranks - 1) / ranks;
  const ClassCut cut{along(ranks), classes};
  std::vector<float> logits = integers(41, kRows * classes, 4);
  const std::vector<float> labels = integers(42, kRows, classes);
  logits[static_cast<size_t>(classes)] = kNan;
  logits[static_cast<size_t>(2 * classes) + static_cast<size_t>(labels[2])] = kNan;
  logits[static_cast<size_t>(4 * classes - 1)] = kInf;
  Inputs given{{"labels", labels}, {"weights", {1, 2, 4, 8, 16, 32, 64, 0, 128}}};
  Inputs all = given;
  all["logits"] = logits;
  const Numbers expected = run(
      make, 0, 1,
      [&](Sketch& sketch) {
        sketch.output("y", sketch.build().emit<TopK>(
                               {sketch.input("logits", {kRows, classes}), sketch.integers("labels", kRows, 1),
                                sketch.input("weights", {kRows})},
                               k, 3));
      },
      all);
  given["sums"] = sums_of_ranks(make, cut, kRows, logits, given);
  const Shape of_sums{ranks, kRows, LogitSum::kFields};
  std::vector<float> counts(kRows, 0.0f);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Inputs inputs{
        {"labels", labels}, {"sums", given["sums"]}, {"logits", columns(logits, classes, rank * own, own)}};
    const Numbers found = run(
        make, rank, ranks,
        [&](Sketch& sketch) {
          sketch.output("y", sketch.build().emit<ClassesBefore>(
                                 {sketch.input("logits", {kRows, own}), sketch.integers("labels", kRows, 1),
                                  sketch.input("sums", of_sums)},
                                 cut));
        },
        inputs);
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += static_cast<float>(found[i]);
  }
  given["counts"] = counts;
  const Numbers found = run(
      make, ranks - 1, ranks,
      [&](Sketch& sketch) {
        sketch.output("y", sketch.build().emit<TopKOfRanks>(
                               {sketch.input("counts", {kRows}), sketch.input("sums", of_sums),
                                sketch.integers("labels", kRows, 1), sketch.input("weights", {kRows})},
                               k, 3, cut));
      },
      given);
  check_equal(found, expected);
}

}  // namespace

void check_shared_classes(const BackendOfRank& make) {
  for (const int64_t ranks : {2, 3, 4}) {
    for (const int64_t classes : {5, 33, 700}) {
      for (const int64_t k : {1, 5}) {
        INFO(ranks << " ranks, " << classes << " classes, the " << k << " largest");
        check_top_k(make, ranks, classes, k);
      }
    }
  }
  // More ranks than some have classes for: five classes on four ranks leave the last one without any.
  for (const int64_t ranks : {2, 3, 4}) {
    for (const LossCase& one :
         {LossCase{3, 0.3, true, 0}, LossCase{5, 0, false, 0}, LossCase{5, 0.1, false, 0},
          LossCase{33, 0.1, true, 0}, LossCase{700, 0, false, 0}, LossCase{33, 0, false, kNan},
          LossCase{33, 0.1, false, kInf}, LossCase{33, 0, false, -kInf}}) {
      INFO(ranks << " ranks, " << one.classes << " classes, smoothing " << one.smoothing << ", "
                 << one.planted);
      check_cross_entropy(make, ranks, one);
      check_cross_entropy_sums(make, ranks, one);
    }
  }
  // It judges the classes of all ranks, not those of one.
  const TensorSpec own{{2, 4}, DType::f32}, labels{{2}, DType::i32}, weights{{2}, DType::f32};
  const std::vector<TensorSpec> inputs = {own, labels, weights};
  CHECK_NOTHROW(TopK(5, kNoLabel, ClassCut{along(2), 7}).infer(inputs));
  CHECK_THROWS(TopK(5, kNoLabel, ClassCut{along(2), 4}).infer(inputs));
}

}  // namespace trainer
