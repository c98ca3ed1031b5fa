// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/apply_mask.h"

#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    mask_values(const float* x, const uint8_t* mask, float* y, int64_t count) {
  wait_for_previous_kernels();
  for (int64_t i = first_element(); i < count; i += all_elements()) {
    Octet octet = load(x + i, count - i);
    const Octet kept = load(mask + i, count - i);
#pragma unroll
    for (int k = 0; k < Octet::kSize; ++k) octet.v[k] = kept.v[k] != 0 ? octet.v[k] : 0.0f;
    store(octet, count - i, y + i);
  }
}

Choice select_mask(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  return same_layout(context, inputs, "octets");
}

std::unique_ptr<Kernel> compile_mask(const Gpu& gpu, const OpContext& context, const Choice&,
                                     const Slots& slots) {
  return kernel(context, [x = slots.inputs[ApplyMask::kX], mask = slots.inputs[ApplyMask::kMask],
                          y = slots.outputs[ApplyMask::kY],
                          count = numel(context.inputs[ApplyMask::kX].shape), stream = gpu.stream.get()] {
    return launch(mask_values, blocks_for(count), dim3(kThreads), stream, at<const float>(x),
                  at<const uint8_t>(mask), at<float>(y), count);
  });
}

}  // namespace

void add_apply_mask(Handlers& handlers) {
  handlers[typeid(ApplyMask)] = {select_mask, compile_mask, {}};
}

}  // namespace trainer::cuda
