// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/read_samples.h"

#include <fmt/format.h>

namespace trainer {

void ReadSamples::describe(AttributeVisitor& visit) const {
  for (int i = 0; i < steps.count; ++i) {
    const SampleStep& step = steps.steps[i];
    if (step.mirrors) {
      visit(fmt::format("mirror.{}", i), step.p);
    } else {
      visit(fmt::format("window.{}", i), Size2d{step.height, step.width});
      visit(fmt::format("padding.{}", i), step.padding);
    }
  }
  visit("key", fmt::format("{:016x}", steps.key), {.hidden = true});
}

std::vector<TensorSpec> ReadSamples::infer(std::span<const TensorSpec> inputs) const {
  const Shape& samples = inputs[kSamples].shape;
  expect(samples.size() == 4 && inputs[kSamples].dtype == DType::u8,
         "expected samples (S, C, H, W) of u8, got " + to_string(samples));
  expect(inputs[kLabels] == TensorSpec{{samples[0]}, DType::i32}, "needs a label for each sample");
  expect(inputs[kNumbers].dtype == DType::i32 && inputs[kNumbers].shape.size() == 1 &&
             inputs[kNumbers] == inputs[kEpochs],
         "needs a number and an epoch for each row");
  Shape row{inputs[kNumbers].shape[0], samples[1], samples[2], samples[3]};
  for (int i = 0; i < steps.count; ++i) {
    const SampleStep& step = steps.steps[i];
    if (step.mirrors) continue;
    expect(step.height <= row[2] + 2 * step.padding && step.width <= row[3] + 2 * step.padding,
           "a window is larger than its padded image " + to_string(row));
    row[2] = step.height, row[3] = step.width;
  }
  return {{.shape = row, .dtype = DType::u8}, {.shape = inputs[kNumbers].shape, .dtype = DType::i32}};
}

}  // namespace trainer
