// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/parts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/graph/names.h"
#include "core/graph/ops/attention.h"
#include "core/graph/ops/dropout.h"
#include "core/graph/ops/embedding.h"
#include "core/graph/ops/logit_sums.h"
#include "core/graph/ops/own_part.h"
#include "tests/catch.h"
#include "tests/ops/sketch.h"
#include "tests/reference/place_group.h"
#include "tests/reference/session.h"

namespace trainer {
namespace {

using Numbers = std::vector<double>;
using Inputs = std::map<std::string, std::vector<float>>;
/// Makes outputs named "y" and so on of inputs that it declares.
using Write = std::function<void(Sketch&)>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

Along along(int64_t ranks) {
  return {Axis::tensor, ranks};
}

/// A rank of several, or one process.
class Rank {
 public:
  Rank(const BackendOfRank& make, int64_t rank, int64_t ranks, const Write& write)
      : group_(rank, {.tensor = ranks}), backend_(make(ranks == 1 ? nullptr : &group_)), sketch_(1) {
    write(sketch_);
    session_ = std::make_unique<Session>(sketch_.program, backend_);
  }
  Numbers run(const Inputs& inputs, const std::string& output = "y") {
    session_->set(inputs);
    session_->run(entry_name::kTrainStep);
    return session_->output(entry_name::kTrainStep, output);
  }

 private:
  test::PlaceGroup group_;
  Backend backend_;
  Sketch sketch_;
  std::unique_ptr<Session> session_;
};

Numbers run(const BackendOfRank& make, int64_t rank, int64_t ranks, const Write& write,
            const Inputs& inputs) {
  return Rank(make, rank, ranks, write).run(inputs);
}

std::vector<float> numbers(uint64_t seed, int64_t count) {
  Sketch sketch(seed);
  sketch.input("x", {count});
  return sketch.values.at("x");
}

std::vector<float> integers(uint64_t seed, int64_t count, int64_t below) {
  Sketch sketch(seed);
  sketch.integers("x", count, below);
  return sketch.values.at("x");
}

/// With NaN equal to NaN.
void check_equal(const Numbers& found, const Numbers& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const bool is_equal = std::isnan(expected[i]) ? std::isnan(found[i]) : found[i] == expected[i];
    if (is_equal) continue;
    FAIL_CHECK("element " << i << " is " << found[i] << ", not " << expected[i]);
    return;
  }
}

void check_near(double found, double expected, double tolerance) {
  if (std::isnan(expected)) {
    CHECK(std::isnan(found));
  } else if (std::isinf(expected)) {
    CHECK(found == expected);
  } else {
    CHECK_THAT(found, Catch::Matchers::WithinAbs(expected, tolerance * (1 + std::abs(expected))));
  }
}

/// Columns [begin, begin + count) of rows of `width`; zeros beyond them.
std::vector<float> columns(const std::vector<float>& x, int64_t width, int64_t begin, int64_t count) {
  std::vector<float> part;
  for (int64_t row = 0; row < static_cast<int64_t>(x.size()) / width; ++row) {
    for (int64_t c = begin; c < begin + count; ++c)
      part.push_back(c < width ? x[static_cast<size_t>(row * width + c)] : 0.0f);
  }
  return part;
}

/// The parts' columns beside each other, without what is beyond the whole.
Numbers joined(const std::vector<Numbers>& parts, int64_t width, int64_t of_part) {
  Numbers whole;
  for (int64_t row = 0; row < static_cast<int64_t>(parts[0].size()) / of_part; ++row) {
    for (int64_t c = 0; c < width; ++c)
      whole.push_back(
          parts[static_cast<size_t>(c / of_part)][static_cast<size_t>(row * of_part + c % of_part)]);
  }
  return whole;
}

void check_own_part(const BackendOfRank& make, int64_t ranks) {
  std::vector<float> x = numbers(3, 5 * 3);
  x[4] = kNan, x[9] = -kInf;
  const Shape part{(5 + ranks - 1) / ranks, 3};
  Numbers all;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Numbers found = run(make, rank, ranks,
                              [&](Sketch& sketch) {
                                const TensorId of = sketch.input("x", {5, 3});
                                sketch.output("y", sketch.build().emit<OwnPart>({of}, along(ranks), part));
                              },
                              {{"x", x}});
    all.insert(all.end(), found.begin(), found.end());
    const Numbers first =
        run(make, rank, ranks,
            [&](Sketch& sketch) {
              sketch.output("y", sketch.build().emit<OnFirstRank>({sketch.input("x", {5, 3})}, along(ranks)));
            },
            {{"x", x}});
    check_equal(first, rank == 0 ? Numbers(x.begin(), x.end()) : Numbers(x.size(), 0.0));
  }
  Numbers expected(x.begin(), x.end());
  expected.resize(all.size(), 0.0);
  check_equal(all, expected);
}

/// Each token's row is on one rank; the others have zeros.
void check_embedding(const BackendOfRank& make, int64_t ranks, bool backward) {
  constexpr int64_t kRows = 11, kWidth = 5, kTokens = 14;
  const int64_t own = (kRows + ranks - 1) / ranks;
  std::vector<float> table = numbers(5, kRows * kWidth), dy = numbers(6, kTokens * kWidth);
  table[7] = kNan, dy[3] = kInf;
  const std::vector<float> ids = integers(7, kTokens, kRows);
  const auto write = [&](int64_t rows, std::optional<Along> of) {
    return [=](Sketch& sketch) {
      const TensorId tokens = sketch.integers("ids", {2, kTokens / 2}, 1);
      Builder& build = sketch.build();
      sketch.output("y", backward
                             ? build.emit<EmbeddingBackward>(
                                   {tokens, sketch.input("dy", {2, kTokens / 2, kWidth})}, rows, of)
                             : build.emit<Embedding>({tokens, sketch.input("table", {rows, kWidth})}, of));
    };
  };
  const Inputs whole = backward ? Inputs{{"ids", ids}, {"dy", dy}} : Inputs{{"ids", ids}, {"table", table}};
  const Numbers expected = run(make, 0, 1, write(kRows, {}), whole);
  Numbers sum(backward ? 0 : expected.size(), 0.0), stacked;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Inputs inputs = whole;
    if (!backward) {
      std::vector<float> part(table.begin() + std::min(kRows, rank * own) * kWidth,
                              table.begin() + std::min(kRows, (rank + 1) * own) * kWidth);
      part.resize(static_cast<size_t>(own * kWidth), 0.0f);
      inputs["table"] = part;
    }
    const Numbers found = run(make, rank, ranks, write(own, along(ranks)), inputs);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += found[i];
    stacked.insert(stacked.end(), found.begin(), found.end());
  }
  if (!backward) return check_equal(sum, expected);
  Numbers padded = expected;
  padded.resize(stacked.size(), 0.0);
  check_equal(stacked, padded);
}

/// Rows (3 samples of `positions` rows), or columns, of a dropout of wholes.
void check_dropout(const BackendOfRank& make, int64_t ranks, int64_t width, bool by_rows) {
  constexpr int64_t kSamples = 3, kPositions = 5;
  const DropoutSettings settings{.p = 0.4, .key = 77};
  std::vector<float> x = numbers(8, kSamples * kPositions * width);
  x[2] = kNan, x[x.size() - 1] = kInf;
  const Inputs given{{"x", x}, {"sample", {4, 0, 9}}, {"step", {6}}};
  const auto write = [&](const Shape& shape, std::optional<DropoutPart> part) {
    return [=](Sketch& sketch) {
      sketch.output(
          "y", sketch.build().emit<Dropout>(
                   {sketch.input("x", shape), sketch.integers("sample", 3, 1), sketch.integers("step", 1, 1)},
                   settings, part));
    };
  };
  const Numbers expected = run(make, 0, 1, write({kSamples, kPositions, width}, {}), given);
  const int64_t rows = (kSamples * kPositions + ranks - 1) / ranks, own = width / ranks;
  DropoutPart part{.along = along(ranks), .rows_of_sample = kPositions, .width = width};
  (by_rows ? part.rows : part.columns) = by_rows ? rows : own;
  std::vector<Numbers> found;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Inputs inputs = given;
    if (by_rows) {
      std::vector<float> of_rank = x;
      of_rank.resize(static_cast<size_t>(ranks * rows * width), 0.0f);
      inputs["x"] = {of_rank.begin() + rank * rows * width, of_rank.begin() + (rank + 1) * rows * width};
    } else {
      inputs["x"] = columns(x, width, rank * own, own);
    }
    const Shape shape = by_rows ? Shape{rows, width} : Shape{kSamples, kPositions, own};
    found.push_back(run(make, rank, ranks, write(shape, part), inputs));
  }
  if (!by_rows) return check_equal(joined(found, width, own), expected);
  Numbers all;
  for (const Numbers& each : found) all.insert(all.end(), each.begin(), each.end());
  Numbers padded = expected;
  padded.resize(all.size(), 0.0);
  check_equal(all, padded);
}

/// Heads of a rank drop what they drop among all heads.
void check_attention(const BackendOfRank& make, int64_t ranks) {
  constexpr int64_t kSize = 6, kTokens = 7;
  const int64_t heads = 2 * ranks, kv_heads = ranks;
  const AttentionSettings whole{
      .heads = heads, .kv_heads = kv_heads, .causal = true, .dropout = DropoutSettings{.p = 0.3, .key = 5}};
  const std::vector<float> q = numbers(11, 2 * kTokens * heads * kSize),
                           k = numbers(12, 2 * kTokens * kv_heads * kSize),
                           v = numbers(13, 2 * kTokens * kv_heads * kSize);
  const auto write = [&](const AttentionSettings& settings) {
    return [=](Sketch& sketch) {
      const Shape keys{2, kTokens, settings.kv_heads * kSize};
      sketch.output("y", sketch.build().emit<Attention>(
                             {sketch.input("q", {2, kTokens, settings.heads * kSize}),
                              sketch.input("k", keys), sketch.input("v", keys), kNone, kNone,
                              sketch.integers("sample", 2, 1), sketch.integers("step", 1, 1)},
                             settings));
    };
  };
  const Inputs small{{"sample", {3, 1}}, {"step", {2}}};
  Inputs all = small;
  all["q"] = q, all["k"] = k, all["v"] = v;
  const Numbers expected = run(make, 0, 1, write(whole), all);
  AttentionSettings own = whole;
  own.heads = 2, own.kv_heads = 1, own.along = along(ranks);
  std::vector<Numbers> found;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Inputs inputs = small;
    inputs["q"] = columns(q, heads * kSize, 2 * rank * kSize, 2 * kSize);
    inputs["k"] = columns(k, kv_heads * kSize, rank * kSize, kSize);
    inputs["v"] = columns(v, kv_heads * kSize, rank * kSize, kSize);
    found.push_back(run(make, rank, ranks, write(own), inputs));
  }
  const Numbers joint = joined(found, heads * kSize, 2 * kSize);
  REQUIRE(joint.size() == expected.size());
  for (size_t i = 0; i < joint.size(); ++i) check_near(joint[i], expected[i], 1e-5);
}

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

void check_parts(const BackendOfRank& make) {
  for (const int64_t ranks : {2, 3, 4}) {
    INFO(ranks << " ranks");
    check_own_part(make, ranks);
    for (const bool backward : {false, true}) check_embedding(make, ranks, backward);
    for (const int64_t width : {5, 12, 33}) check_dropout(make, ranks, width, true);
    for (const int64_t width : {1, 3, 4, 9}) check_dropout(make, ranks, ranks * width, false);
    check_attention(make, ranks);
  }
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
}

}  // namespace trainer
