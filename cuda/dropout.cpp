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

/// Of a rank that has some rows of the samples, or some columns.
std::unique_ptr<Kernel> compile_part(const Gpu& gpu, const OpContext& context, const Slots& slots) {
  const auto& op = static_cast<const Dropout&>(context.op);
  const TensorSpec& x = context.inputs[Dropout::kX];
  const int64_t position = gpu.position_along(op.part->along);
  const SampleRows rows{.samples = context.inputs[Dropout::kSample].shape[0],
                        .dtype = x.dtype,
                        .index = nullptr,
                        .step = nullptr,
                        .rows = numel(x.shape) / x.shape.back(),
                        .width = x.shape.back(),
                        .of_sample = op.part->rows_of_sample,
                        .whole_width = op.part->width,
                        .first_row = op.part->rows * position,
                        .first_column = op.part->columns * position};
  return kernel(context, [=, settings = op.settings, stream = gpu.stream.get()] {
    SampleRows now = rows;
    now.index = at<const int32_t>(slots.inputs[Dropout::kSample]);
    now.step = at<const int32_t>(slots.inputs[Dropout::kStep]);
    return launch_dropout(settings, now, *slots.inputs[Dropout::kX], *slots.outputs[Dropout::kY], stream);
  });
}

cudaError_t launch_whole(const DropoutSettings& settings, const Samples& samples, const void* x, void* y,
                         cudaStream_t stream) {
  return launch_dropout(settings, samples, x, y, stream);
}

}  // namespace

void add_dropout(Handlers& handlers) {
  handlers[typeid(Dropout)] = {
      select_dropout,
      [](const Gpu& gpu, const OpContext& context, const Choice&, const Slots& slots) {
        if (static_cast<const Dropout&>(context.op).part) return compile_part(gpu, context, slots);
        return compile<Dropout>(gpu, context, slots, launch_whole);
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
