// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/embedding.h"

#include <algorithm>

#include "core/step/stages.h"
#include "cpu/backend.h"
#include "tests/catch.h"
#include "tests/ops/harness.h"
#include "tests/reference/session.h"

using namespace trainer;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Sizes {
  int64_t samples, tokens, vocabulary, features;
};

Draft embedding(const Sizes& e) {
  return [=](Sketch& sketch) {
    const TensorId ids = sketch.integers("ids", {e.samples, e.tokens}, e.vocabulary);
    const TensorId table = sketch.parameter("table", {e.vocabulary, e.features});
    const TensorId y = sketch.build().emit<Embedding>({ids, table});
    sketch.output("y", y);
    sketch.loss(y);
  };
}

}  // namespace

TEST_CASE("an embedding reads the rows of its ids and sums their gradients") {
  for (const Sizes& e :
       {Sizes{1, 1, 1, 2}, {1, 31, 33, 31}, {3, 33, 5, 33}, {2, 7, 1000, 17}, {31, 1, 3, 64}}) {
    INFO(e.samples << "x" << e.tokens << " of " << e.vocabulary);
    check_program("embedding", embedding(e));
  }
}

TEST_CASE("an embedding's gradient has the same bits on any number of threads") {
  Sketch sketch(1);
  embedding({4, 300, 50, 100})(sketch);
  run_passes(sketch.program, {autodiff()});
  Entry& entry = sketch.program.entries[0];
  entry.outputs.push_back({"gradient", entry.gradients.at(0).gradient});
  std::vector<std::vector<double>> found;
  for (const int threads : {1, 2, 5}) {
    const auto cpu = make_cpu_backend(threads);
    Session session(sketch.program, cpu);
    session.set(sketch.values);
    session.run(entry_name::kTrainStep);
    found.push_back(session.output(entry_name::kTrainStep, "gradient"));
  }
  CHECK(found[0] == found[1]);
  CHECK(found[0] == found[2]);
}

TEST_CASE("an embedding refuses what is no token id") {
  Sketch sketch(1);
  const TensorId table = sketch.parameter("table", {4, 5});
  CHECK_THROWS_WITH(sketch.build().emit<Embedding>({sketch.input("x", {2, 5}), table}),
                    ContainsSubstring("expected token ids (N, T), got f32 of shape 2x5"));
  CHECK_THROWS_WITH(sketch.build().emit<Embedding>({sketch.integers("ids", 3, 4), table}),
                    ContainsSubstring("expected token ids (N, T), got i32 of shape 3"));
}
