// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/sync_batch_norm.h"

#include <fmt/format.h>

#include "tests/catch.h"

#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/conv2d.h"
#include "cpu/backend.h"
#include "tests/ops/harness.h"
#include "tests/reference/session.h"
#include "tests/reference/thread_group.h"

namespace trainer {
namespace {

const std::vector<Shape> kSynced = {{2, 1, 1, 1},  {3, 5, 1, 1},  {2, 16, 4, 4},
                                    {3, 17, 5, 3}, {1, 33, 7, 7}, {1, 3, 190, 181}};

/// A convolution gives its output the blocked layout that suits the CPU best.
TensorId image(Sketch& sketch, const std::string& name, const Shape& shape, bool blocks) {
  const TensorId x = sketch.input(name, shape);
  if (!blocks) return x;
  const TensorId w = sketch.input(name + ".w", {shape[1], shape[1], 1, 1});
  return sketch.build().emit<Conv2d>({x, w, kNone}, Conv2dGeometry{});
}

/// The nodes that the pass makes, with made-up tables of `ranks`; they are independent of a loss.
void draft_split(Sketch& sketch, const Shape& shape, int64_t ranks, bool blocks, bool fused) {
  const TensorId x = image(sketch, "x", shape, blocks), dy = image(sketch, "dy", shape, blocks);
  const TensorId gamma = sketch.input("gamma", {shape[1]}, Values::positive);
  const TensorId beta = sketch.input("beta", {shape[1]});
  const TensorId moments = sketch.input("moments", {ranks, 2, shape[1]}, Values::positive);
  const TensorId sums = sketch.input("sums", {ranks, 2, shape[1]});
  const TensorId residual = fused ? image(sketch, "r", shape, blocks) : kNone;
  const TensorId second = fused ? image(sketch, "dy2", shape, blocks) : kNone;
  Builder& build = sketch.build();
  sketch.output("own moments", build.emit<BatchNormMoments>({x}, ranks));
  const auto y =
      build.emit_all(std::make_shared<BatchNorm>(1e-3, fused), {x, gamma, beta, residual, moments});
  const TensorId mask = fused ? y[3] : kNone;
  const auto own =
      build.emit_all(std::make_shared<BatchNormSums>(1e-3, ranks, fused), {dy, x, y[1], y[2], mask, second});
  const TensorId slope = fused ? own[3] : dy;
  const TensorId dx = build.emit_all(std::make_shared<BatchNormBackward>(1e-3, false, false),
                                     {slope, x, gamma, y[1], y[2], kNone, kNone, sums})[0];
  const TensorId unmasked = build.emit_all(std::make_shared<BatchNormBackward>(1e-3, fused, false),
                                           {dy, x, gamma, y[1], y[2], mask, second, sums})[0];
  for (const auto& [name, id] : {std::pair{"y", y[0]},
                                 {"mean", y[1]},
                                 {"variance", y[2]},
                                 {"own sums", own[0]},
                                 {"dgamma", own[1]},
                                 {"dbeta", own[2]},
                                 {"slope", slope},
                                 {"dx", dx},
                                 {"dx at once", unmasked}})
    sketch.output(name, id);
  sketch.loss(sketch.parameter("p", {3}));
}

}  // namespace

TEST_CASE("batch normalisation with tables of several ranks has the reference's values") {
  for (const Shape& shape : kSynced) {
    for (const int64_t ranks : {1, 2, 5}) {
      for (const bool blocks : {false, true}) {
        INFO(fmt::format("{} ranks {} blocks {}", to_string(shape), ranks, blocks));
        const bool fused = (ranks + shape[1]) % 2 == 0;
        for (const uint64_t seed : {1, 2})
          check_cpu([&](Sketch& sketch) { draft_split(sketch, shape, ranks, blocks, fused); }, seed);
      }
    }
  }
}

TEST_CASE("a table that is no rank's is refused") {
  Sketch sketch(1);
  const TensorId x = sketch.input("x", {2, 4, 3, 3}), c = sketch.input("c", {4});
  for (const Shape& wrong : {Shape{2, 4}, Shape{2, 3, 4}, Shape{2, 2, 5}}) {
    const TensorId table = sketch.input(to_string(wrong), wrong);
    CHECK_THROWS_WITH(sketch.build().emit<BatchNorm>({x, c, c, kNone, table}, 1e-3),
                      Catch::Matchers::ContainsSubstring("two numbers of each of 4 channels"));
  }
}

namespace {

constexpr int64_t kRanks = 3, kArea = 13 * 17;

/// The variance that normalisation finds in one channel of all ranks' values.
double variance_of_ranks(const std::vector<std::vector<float>>& values) {
  test::ThreadGroup together(kRanks);
  std::vector<float> table(2 * kRanks, 0);
  for (size_t rank = 0; rank < values.size(); ++rank) {
    Sketch sketch(1);
    sketch.output("table",
                  sketch.build().emit<BatchNormMoments>({sketch.input("x", {1, 1, 13, 17})}, kRanks));
    test::ThreadProcessGroup seat(together, rank);
    const Backend backend = make_cpu_backend(1, nullptr, false, &seat);
    Session session(sketch.program, backend);
    session.set("x", values[rank]);
    session.run("train_step");
    const std::vector<double> own = session.output("train_step", "table");
    for (size_t i = 0; i < table.size(); ++i) table[i] += static_cast<float>(own[i]);
  }
  Sketch sketch(1);
  const TensorId one = sketch.input("one", {1});
  const auto y = sketch.build().emit_all(
      std::make_shared<BatchNorm>(1e-5),
      {sketch.input("x", {1, 1, 13, 17}), one, one, kNone, sketch.input("table", {kRanks, 2, 1})});
  sketch.output("y", y[0]), sketch.output("variance", y[2]);
  const Backend backend = make_cpu_backend(1);
  Session session(sketch.program, backend);
  session.set({{"x", values[0]}, {"one", {1}}, {"table", table}});
  session.run("train_step");
  return session.output("train_step", "variance")[0];
}

/// The same by sums of x and of x^2 in f32.
double variance_by_sums(const std::vector<std::vector<float>>& values) {
  float sum = 0, squares = 0, count = 0;
  for (const auto& of_rank : values) {
    for (const float x : of_rank) sum += x, squares += x * x, ++count;
  }
  return squares / count - sum / count * (sum / count);
}

double exact_variance(const std::vector<std::vector<float>>& values) {
  double sum = 0, squares = 0;
  for (const auto& of_rank : values) {
    for (const float x : of_rank) sum += x;
  }
  const double count = kRanks * kArea, mean = sum / count;
  for (const auto& of_rank : values) {
    for (const float x : of_rank) squares += (x - mean) * (x - mean);
  }
  return squares / count;
}

}  // namespace

TEST_CASE("the variance over ranks keeps its digits where means are large and differ") {
  for (const float mean : {0.0f, 30.0f, 1000.0f}) {
    for (const uint64_t seed : {1, 2}) {
      RandomStream random(seed);
      std::vector<std::vector<float>> values(kRanks, std::vector<float>(kArea));
      for (size_t rank = 0; rank < values.size(); ++rank) {
        for (float& x : values[rank]) x = mean + random.next_uniform() + 0.2f * static_cast<float>(rank);
      }
      const double exact = exact_variance(values);
      CAPTURE(mean, seed, std::abs(variance_by_sums(values) / exact - 1));
      // Means are f32: only their rounding remains.
      CHECK(variance_of_ranks(values) == Approx(exact).epsilon(1e-6 + 1e-7 * double{mean}));
      if (mean == 1000) CHECK(std::abs(variance_by_sums(values) / exact - 1) > 1e-2);
    }
  }
}

}  // namespace trainer
