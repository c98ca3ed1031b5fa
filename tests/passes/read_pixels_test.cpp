// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "tests/passes/draft.h"

using namespace trainer;

namespace {

const PixelNumbers kTraining = {.scale = {1, 2, 3}, .offset = {0, 0, 0}},
                   kEvaluation = {.scale = {4, 5, 6}, .offset = {1, 1, 1}};

/// Two entries that read images: by a convolution and as they are, by a convolution alone.
Draft draft() {
  Draft both;
  const TensorId images = both.input(input_name::kImages, {2, 3, 4, 4}),
                 w = both.parameter("w", {3, 3, 1, 1});
  both.program.entries.emplace_back(entry_name::kEvaluate);
  for (Entry& entry : both.program.entries) {
    Builder build(both.program, entry);
    TensorId y = build.emit<Conv2d>({images, w, kNone}, Conv2dGeometry{});
    if (entry.name == entry_name::kTrainStep) y = build.emit<Binary>({y, images}, Binary::Kind::add);
    entry.outputs.push_back({"y", y});
  }
  return both;
}

Pass reading() {
  return read_pixels({{entry_name::kTrainStep, kTraining}, {entry_name::kEvaluate, kEvaluation}});
}

const std::string kConvolution = "conv2d(scale_pixels, w, -, -, -, -) {kernel=1x1 stride=1x1 padding=0x0}",
                  kOfTraining = "scale_pixels(images, train_step.pixel_scale, train_step.pixel_offset)",
                  kOfEvaluation = "scale_pixels(images, evaluate.pixel_scale, evaluate.pixel_offset)";

}  // namespace

TEST_CASE("each entry scales bytes once, as its split wants it") {
  Draft both = draft();
  CHECK(both.run({reading()}).calls() ==
        Calls{kOfTraining + " {to=f32}", kConvolution, "add(conv2d, scale_pixels)"});
  CHECK(both.calls({}, entry_name::kEvaluate) == Calls{kOfEvaluation + " {to=f32}", kConvolution});
  CHECK(both.program.spec(both.program.find(input_name::kImages)).dtype == DType::u8);
}

TEST_CASE("the cast of the images is made while they are scaled") {
  Draft both = draft();
  both.run({mixed_precision(DType::bf16), reading()});
  CHECK(both.calls("scale_pixels") == Calls{"bf16 " + kOfTraining + " {to=bf16}", kOfTraining + " {to=f32}"});
  CHECK(both.calls("scale_pixels", entry_name::kEvaluate) == Calls{"bf16 " + kOfEvaluation + " {to=bf16}"});
  CHECK(both.calls("cast") == Calls{"bf16 cast(w) {to=bf16}", "cast(conv2d) {to=f32}"});
  CHECK(both.calls("add") == Calls{"add(cast, scale_pixels)"});
}

TEST_CASE("the scales are constants of the program") {
  const Program program = draft().run({reading()}).program;
  auto table = [&](const char* name) {
    const std::vector<double>& values = program.tensor(program.find(name)).initial.table;
    return std::vector<float>(values.begin(), values.end());
  };
  CHECK(table("train_step.pixel_scale") == kTraining.scale);
  CHECK(table("evaluate.pixel_scale") == kEvaluation.scale);
  CHECK(table("evaluate.pixel_offset") == kEvaluation.offset);
}
