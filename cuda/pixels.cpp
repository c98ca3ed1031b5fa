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
  const Shape &shape = context.inputs[ScalePixels::kX].shape,
              &to_shape = context.outputs[ScalePixels::kY].shape;
  const bool last = choice.outputs[ScalePixels::kY] == channels_last(to_shape);
  if (!last && !choice.outputs[ScalePixels::kY].row_major())
    throw std::logic_error("a layout that the GPU does not have");
  const int64_t channels = shape[1], area = shape[2] * shape[3];
  const int64_t made = to_shape[1];
  const PixelPlaces places{shape[0], channels, area, made, last ? 1 : area, last ? made : 1};
  return kernel(context, [=, to = context.outputs[ScalePixels::kY].dtype, stream = gpu.stream.get(),
                          in = slots.inputs, y = slots.outputs[ScalePixels::kY]] {
    return launch_scale_pixels(to, places, *in[ScalePixels::kX], at<const float>(in[ScalePixels::kScale]),
                               at<const float>(in[ScalePixels::kOffset]), *y, stream);
  });
}

std::unique_ptr<Kernel> compile_reading(const Gpu& gpu, const OpContext& context, const Choice&,
                                        const Slots& slots) {
  const Shape &all = context.inputs[ReadSamples::kSamples].shape,
              &made = context.outputs[ReadSamples::kPixels].shape;
  const SampleSizes sizes{made[0], made[1], all[2], all[3], made[2], made[3]};
  return kernel(context, [=, steps = static_cast<const ReadSamples&>(context.op).steps, in = slots.inputs,
                          out = slots.outputs, stream = gpu.stream.get()] {
    const SampleRows rows{
        at<const uint8_t>(in[ReadSamples::kSamples]), at<const int32_t>(in[ReadSamples::kLabels]),
        at<const int32_t>(in[ReadSamples::kNumbers]), at<const int32_t>(in[ReadSamples::kEpochs]),
        at<uint8_t>(out[ReadSamples::kPixels]),       optional_at<int32_t>(out[ReadSamples::kRowLabels])};
    return launch_read_samples(steps, sizes, rows, stream);
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
