// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/graph/builder.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "core/step/stages.h"

using namespace trainer;

namespace {

const PixelScales kTraining = {.scale = {1, 2, 3}, .offset = {0, 0, 0}},
                  kEvaluation = {.scale = {4, 5, 6}, .offset = {1, 1, 1}};

/// Two entries that read images: by a convolution and as they are, by a convolution alone.
Program draft() {
  Program program;
  const TensorId images = program.input(input_name::kImages, {{2, 3, 4, 4}, DType::f32});
  const TensorId w = program.persistent("w", {{3, 3, 1, 1}, DType::f32}, Role::parameter, {});
  for (const char* name : {entry_name::kTrainStep, entry_name::kEvaluate}) {
    Entry entry(name);
    Builder build(program, entry);
    TensorId y = build.emit<Conv2d>({images, w, kNone}, Conv2dGeometry{});
    if (entry.name == entry_name::kTrainStep) y = build.emit<Binary>({y, images}, Binary::Kind::add);
    entry.outputs.push_back({"y", y});
    program.entries.push_back(entry);
  }
  return program;
}

std::string after(const std::vector<Pass>& passes) {
  Program program = draft();
  run_passes(program, passes);
  const std::string text = to_text(program);
  CHECK(text.find("images: u8") != std::string::npos);
  return text.substr(text.find("\nentry"));
}

Pass reading() {
  return read_pixels({{entry_name::kTrainStep, kTraining}, {entry_name::kEvaluate, kEvaluation}});
}

}  // namespace

TEST_CASE("each entry scales bytes once, as its split wants it") {
  CHECK(after({reading()}) == R"(
entry train_step
 forward:
  %7: f32[2,3,4,4] = scale_pixels(@images, @train_step.pixel_scale, @train_step.pixel_offset) {to=f32}  # images
  %2: f32[2,3,4,4] = conv2d(%7, @w, -, -, -) {kernel=1x1 stride=1x1 padding=0x0}
  %3: f32[2,3,4,4] = add(%2, %7)
  output y = %3

entry evaluate
 forward:
  %10: f32[2,3,4,4] = scale_pixels(@images, @evaluate.pixel_scale, @evaluate.pixel_offset) {to=f32}  # images
  %4: f32[2,3,4,4] = conv2d(%10, @w, -, -, -) {kernel=1x1 stride=1x1 padding=0x0}
  output y = %4
)");
}

TEST_CASE("the cast of the images is made while they are scaled") {
  CHECK(after({mixed_precision(DType::bf16), reading()}) == R"(
entry train_step
 forward:
  %5: bf16[2,3,4,4] = scale_pixels(@images, @train_step.pixel_scale, @train_step.pixel_offset) {to=bf16}
  %6: bf16[3,3,1,1] = cast(@w) {to=bf16}
  %2: bf16[2,3,4,4] = conv2d(%5, %6, -, -, -) {kernel=1x1 stride=1x1 padding=0x0}
  %7: f32[2,3,4,4] = cast(%2) {to=f32}
  %13: f32[2,3,4,4] = scale_pixels(@images, @train_step.pixel_scale, @train_step.pixel_offset) {to=f32}  # images
  %3: f32[2,3,4,4] = add(%7, %13)
  output y = %3

entry evaluate
 forward:
  %8: bf16[2,3,4,4] = scale_pixels(@images, @evaluate.pixel_scale, @evaluate.pixel_offset) {to=bf16}
  %9: bf16[3,3,1,1] = cast(@w) {to=bf16}
  %4: bf16[2,3,4,4] = conv2d(%8, %9, -, -, -) {kernel=1x1 stride=1x1 padding=0x0}
  %10: f32[2,3,4,4] = cast(%4) {to=f32}
  output y = %10
)");
}

TEST_CASE("the scales are constants of the program") {
  Program program = draft();
  run_passes(program, {reading()});
  auto table = [&](const char* name) {
    const std::vector<double>& values = program.tensor(program.find(name)).initial.table;
    return std::vector<float>(values.begin(), values.end());
  };
  CHECK(table("train_step.pixel_scale") == kTraining.scale);
  CHECK(table("evaluate.pixel_scale") == kEvaluation.scale);
  CHECK(table("evaluate.pixel_offset") == kEvaluation.offset);
}
