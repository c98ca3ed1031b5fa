// SPDX-License-Identifier: Apache-2.0
#include "cuda/dropout.h"

#include "core/graph/ops/stochastic_depth.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

/// Elements are numbered in row-major order.
Choice select_dropout(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return row_major(context, "loop");
}

/// A sample's elements are adjacent in every layout of the GPU.
Choice select_depth(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  return same_layout(context, inputs, "loop");
}

template <class Op>
std::unique_ptr<Kernel> compile(const Gpu& gpu, const OpContext& context, const Slots& slots,
                                cudaError_t (*start)(const DropoutSettings&, const Samples&, const void*,
                                                     void*, cudaStream_t)) {
  const TensorSpec& x = context.inputs[Dropout::kX];
  return kernel(context, [=, settings = static_cast<const Op&>(context.op).settings, count = x.shape[0],
                          width = numel(x.shape) / x.shape[0], dtype = x.dtype, stream = gpu.stream.get()] {
    const Samples samples{count, width, dtype, at<const int32_t>(slots.inputs[Dropout::kSample]),
                          at<const int32_t>(slots.inputs[Dropout::kStep])};
    return start(settings, samples, *slots.inputs[Dropout::kX], *slots.outputs[Dropout::kY], stream);
  });
}

}  // namespace

void add_dropout(Handlers& handlers) {
  handlers[typeid(Dropout)] = {
      select_dropout,
      [](const Gpu& gpu, const OpContext& context, const Choice&, const Slots& slots) {
        return compile<Dropout>(gpu, context, slots, launch_dropout);
      },
      floats_only};
  handlers[typeid(StochasticDepth)] = {
      select_depth,
      [](const Gpu& gpu, const OpContext& context, const Choice&, const Slots& slots) {
        return compile<StochasticDepth>(gpu, context, slots, launch_stochastic_depth);
      },
      floats_only};
}

}  // namespace trainer::cuda
