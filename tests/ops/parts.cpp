// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/parts.h"

#include <algorithm>
#include <vector>

#include "core/graph/ops/attention.h"
#include "core/graph/ops/dropout.h"
#include "core/graph/ops/embedding.h"
#include "core/graph/ops/own_part.h"
#include "tests/ops/one_rank.h"

namespace trainer {
namespace {

using namespace test;

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
  check_shared_classes(make);
}

}  // namespace trainer
