// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/read_samples.h"

#include "tests/catch.h"

#include "core/graph/ops/binary.h"
#include "core/graph/ops/scale_pixels.h"
#include "tests/ops/harness.h"

using namespace trainer;

namespace {

/// Rows of seven samples, the last one padding, as numbers; labels are compared too.
TensorId rows_of(Sketch& sketch, const Shape& sample, const SampleSteps& steps) {
  constexpr int64_t kSamples = 7, kRows = 5;
  const TensorId samples = sketch.pixels("samples", {kSamples, sample[0], sample[1], sample[2]}),
                 answers = sketch.integers("answers", kSamples, 10),
                 numbers = sketch.integers("numbers", kRows, kSamples),
                 epochs = sketch.integers("epochs", kRows, 100);
  sketch.values["numbers"].back() = -1;
  Builder& build = sketch.build();
  const std::vector<TensorId> read =
      build.emit_all(std::make_shared<ReadSamples>(steps), {samples, answers, numbers, epochs});
  sketch.output("labels", read[1]);
  const TensorId scale = sketch.input("scale", {sample[0]}), offset = sketch.input("offset", {sample[0]});
  for (float& value : sketch.values["scale"]) value /= 128;
  return build.emit<ScalePixels>({read[0], scale, offset}, DType::f32);
}

const SampleStep kMirror = {.mirrors = true, .p = 0.5};

SampleStep window(int64_t padding, int64_t height, int64_t width) {
  return {.padding = padding, .height = height, .width = width};
}

SampleSteps steps_of(const std::vector<SampleStep>& list) {
  SampleSteps steps;
  for (const SampleStep& step : list) steps.steps[steps.count++] = step;
  steps.key = 5;
  return steps;
}

}  // namespace

TEST_CASE("rows are read from samples, cut and mirrored") {
  struct Case {
    Shape sample;
    SampleSteps steps;
  };
  const std::vector<Case> cases = {
      {{1, 5, 7}, steps_of({})},
      {{3, 8, 8}, steps_of({window(2, 8, 8), kMirror})},
      {{2, 9, 5}, steps_of({kMirror, window(0, 4, 4)})},
      {{1, 1, 33}, steps_of({window(3, 7, 31)})},
      {{3, 6, 7}, steps_of({window(9, 11, 5), kMirror, window(4, 8, 9), kMirror})}};
  for (const Case& one : cases) {
    check_program(to_string(one.sample), [&](Sketch& sketch) {
      const TensorId y = rows_of(sketch, one.sample, one.steps);
      sketch.output("y", y);
      const Shape made = sketch.build().shape(y);
      sketch.loss(sketch.build().emit<Binary>({y, sketch.parameter("w", made)}, Binary::Kind::mul));
    });
  }
}

TEST_CASE("samples that do not fit together are refused") {
  Sketch sketch(1);
  const TensorId samples = sketch.pixels("samples", {7, 1, 4, 4}), answers = sketch.integers("answers", 7, 3),
                 few = sketch.integers("few", 6, 3), rows = sketch.integers("rows", 5, 7);
  auto read = [&](const SampleSteps& steps, const std::vector<TensorId>& inputs) {
    sketch.build().emit_all(std::make_shared<ReadSamples>(steps), inputs);
  };
  CHECK_THROWS_WITH(read(steps_of({}), {samples, few, rows, rows}),
                    Catch::Matchers::ContainsSubstring("a label for each sample"));
  CHECK_THROWS_WITH(read(steps_of({}), {samples, answers, rows, few}),
                    Catch::Matchers::ContainsSubstring("a number and an epoch"));
  CHECK_THROWS_WITH(read(steps_of({window(1, 7, 4)}), {samples, answers, rows, rows}),
                    Catch::Matchers::ContainsSubstring("a window is larger than its padded image 5x1x4x4"));
}
