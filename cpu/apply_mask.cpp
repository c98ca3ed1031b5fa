// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/apply_mask.h"

#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

TRAINER_MULTIVERSION void apply_mask(const float* x, const uint8_t* mask, float* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = mask[i] != 0 ? x[i] : 0;
}

std::unique_ptr<Kernel> compile_mask(const OpContext& context, const Choice& choice, const Slots& slots) {
  const int64_t count = stored_elements(choice.inputs[ApplyMask::kX], context.inputs[ApplyMask::kX].shape);
  return kernel([=, x = slots.inputs[ApplyMask::kX], mask = slots.inputs[ApplyMask::kMask],
                 y = slots.outputs[ApplyMask::kY]] {
    parallel_elements(count, [=](int64_t begin, int64_t end) {
      apply_mask(at<const float>(x) + begin, at<const uint8_t>(mask) + begin, at<float>(y) + begin,
                 end - begin);
    });
  });
}

}  // namespace

void add_apply_mask(Handlers& handlers) {
  handlers[typeid(ApplyMask)] = {
      [](const OpContext& context, const OpenLayouts& inputs) { return select_same(context, inputs, true); },
      compile_mask,
      {}};
}

}  // namespace trainer::cpu
