// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/confusion_cells.h"

#include <limits>

#include "core/graph/ops/cross_entropy.h"
#include "cpu/backend.h"
#include "tests/catch.h"
#include "tests/ops/harness.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

constexpr const char* kCells = "evaluate";

Program cells_program(const Shape& logits, const Shape& labels, int32_t ignored = kNoLabel) {
  Program program;
  program.entries.emplace_back(kCells);
  Builder build(program, program.entries[0]);
  const std::vector<TensorId> inputs{program.input("logits", {logits, DType::f32}),
                                     program.input("labels", {labels, DType::i32}),
                                     program.input("weights", {{logits[0]}, DType::f32})};
  program.entries[0].outputs.push_back({"cells", build.emit<ConfusionCells>(inputs, ignored)});
  return program;
}

void check_cells(const Program& program, const std::map<std::string, std::vector<float>>& values,
                 const std::vector<double>& expected) {
  for (const bool is_reference : {true, false}) {
    const Backend backend = is_reference ? make_reference_backend() : make_cpu_backend(2);
    INFO(backend.planner->name());
    Session session(program, backend);
    session.set(values);
    session.run(kCells);
    CHECK(session.output(kCells, "cells") == expected);
  }
}

}  // namespace

TEST_CASE("confusion cells of both backends agree, of samples, tokens and pixels") {
  for (const Shape& shape : {Shape{1, 2}, Shape{3, 31}, Shape{65, 10}, Shape{2, 1000}, Shape{3, 7, 5},
                             Shape{3, 5, 3, 7}, Shape{2, 31, 1, 33}}) {
    check_program("confusion_cells " + to_string(shape), [&](Sketch& sketch) {
      const Shape labels = shape.size() == 4   ? Shape{shape[0], shape[2], shape[3]}
                           : shape.size() == 3 ? Shape{shape[0], shape[1]}
                                               : Shape{shape[0]};
      const std::vector<TensorId> inputs{sketch.parameter("logits", shape),
                                         sketch.integers("labels", labels, LogitSizes(shape).classes),
                                         sketch.input("weights", {shape[0]}, Values::positive)};
      sketch.values["weights"][0] = 0;
      sketch.output("cells", sketch.build().emit<ConfusionCells>(inputs, 1));
      sketch.output("loss", sketch.build().emit<CrossEntropy>(inputs, 0.0));
    });
  }
}

TEST_CASE("confusion cells: label times classes plus the lowest class of the largest logit") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  check_cells(cells_program({7, 3}, {7}),
              {{"logits",
                {0, 1, 2, 5, 5, 4, nan, 1, 2, nan, -inf, nan, nan, nan, nan, -inf, -inf, -inf, 0, inf, inf}},
               {"labels", {2, 2, 0, 1, 1, 0, 2}},
               {"weights", {1, 1, 0.5f, 1, 1, 1, 1}}},
              {8, 6, 2, 4, 3, 0, 7});
}

TEST_CASE(
    "confusion cells: samples of weight 0 and ignored labels have none, pixels are in the labels' order") {
  check_cells(cells_program({2, 2, 1, 3}, {2, 1, 3}, 255),
              {{"logits", {1, 2, 3, 2, 1, 4, 0, 0, 0, 9, 9, 9}},
               {"labels", {1, 255, 0, 0, 1, 1}},
               {"weights", {1, 0}}},
              {3, -1, 1, -1, -1, -1});
}

TEST_CASE("cells of sets of labels: the halves are labels, and logits above 0 predictions") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Program program;
  program.entries.emplace_back(kCells);
  Builder build(program, program.entries[0]);
  const std::vector<TensorId> inputs{program.input("logits", {{3, 2}, DType::f32}),
                                     program.input("targets", {{3, 2}, DType::f32}),
                                     program.input("weights", {{3}, DType::f32})};
  program.entries[0].outputs.push_back({"cells", build.emit<LabelSetCells>(inputs)});
  check_cells(program,
              {{"logits", {0, 1e-30f, -1, nan, 5, 5}},
               {"targets", {1, 0.5f, 0.49f, 1, 1, 0}},
               {"weights", {1, 0.5f, 0}}},
              {2, 7, 0, 6, -1, -1});
}

TEST_CASE("confusion cells: more classes than 31 bits of cells are refused") {
  CHECK_THROWS_WITH(cells_program({1, 50000}, {1}), Catch::Matchers::ContainsSubstring("31 bits"));
}
