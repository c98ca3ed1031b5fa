// SPDX-License-Identifier: Apache-2.0
#include "cuda/pixels.h"

#include <stdexcept>

#include "core/graph/ops/read_samples.h"
#include "core/graph/ops/scale_pixels.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

std::unique_ptr<Kernel> compile_scale(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                      const Slots& slots) {
  const Shape &shape = context.inputs[0].shape, &to_shape = context.outputs[0].shape;
  const bool last = choice.outputs[0] == channels_last(to_shape);
  if (!last && !choice.outputs[0].row_major()) throw std::logic_error("a layout that the GPU does not have");
  const int64_t channels = shape[1], area = shape[2] * shape[3];
  const int64_t made = to_shape[1];
  const PixelPlaces places{shape[0], channels, area, made, last ? 1 : area, last ? made : 1};
  return kernel(context, [=, to = context.outputs[0].dtype, stream = gpu.stream.get(), in = slots.inputs,
                          y = slots.outputs[0]] {
    return launch_scale_pixels(to, places, *in[0], at<const float>(in[1]), at<const float>(in[2]), *y,
                               stream);
  });
}

std::unique_ptr<Kernel> compile_reading(const Gpu& gpu, const OpContext& context, const Choice&,
                                        const Slots& slots) {
  const Shape &all = context.inputs[0].shape, &made = context.outputs[0].shape;
  const SampleExtents extents{made[0], made[1], all[2], all[3], made[2], made[3]};
  return kernel(context, [=, steps = static_cast<const ReadSamples&>(context.op).steps, in = slots.inputs,
                          out = slots.outputs, stream = gpu.stream.get()] {
    const SampleRows rows{at<const uint8_t>(in[0]), at<const int32_t>(in[1]), at<const int32_t>(in[2]),
                          at<const int32_t>(in[3]), at<uint8_t>(out[0]),      optional_at<int32_t>(out[1])};
    return launch_read_samples(steps, extents, rows, stream);
  });
}

}  // namespace

void add_pixels(Handlers& handlers) {
  handlers[typeid(ScalePixels)] = {[](const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
                                     return same_layout(context, inputs, "loop");
                                   },
                                   compile_scale,
                                   {}};
  handlers[typeid(ReadSamples)] = {[](const Gpu&, const OpContext& context, const OpenLayouts&) {
                                     return row_major(context, "block per row");
                                   },
                                   compile_reading,
                                   {}};
}

}  // namespace trainer::cuda
