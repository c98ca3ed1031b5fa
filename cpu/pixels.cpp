// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <stdexcept>

#include "core/graph/ops/read_samples.h"
#include "core/graph/ops/scale_pixels.h"
#include "cpu/columns.h"
#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

/// A row of a channel, to places `step` apart.
template <class T>
TRAINER_MULTIVERSION void scale_row(const uint8_t* x, float scale, float offset, int64_t count, int64_t step,
                                    T* y) {
  for (int64_t i = 0; i < count; ++i) put(scale * static_cast<float>(x[i]) + offset, y[i * step]);
}

/// The distance of neighbours along each dimension, and the blocks of the channels.
struct Places {
  int64_t lanes, sample, block, row, pixel;
  Places(const Layout& layout, const Shape& shape) {
    const bool last = !layout.row_major() && layout.dims == shape && layout.block_dims.empty();
    const auto blocks = channel_blocks(layout, shape);
    if (!last && !blocks) throw std::logic_error("pixels are not written in layout " + to_string(layout));
    lanes = last ? 1 : blocks->lanes;
    sample = last ? layout.strides[0] : blocks->blocks * blocks->run;
    block = last ? layout.strides[1] : blocks->lanes == 1 ? shape[2] * shape[3] : blocks->run;
    row = last ? layout.strides[2] : shape[3] * lanes;
    pixel = last ? layout.strides[3] : lanes;
  }
};

template <class T>
std::unique_ptr<Kernel> scaling_kernel(const OpContext& c, const Layout& layout, const Slots& slots) {
  const Shape shape = c.outputs[ScalePixels::kY].shape;
  const auto stored = static_cast<size_t>(stored_elements(layout, shape)) * sizeof(T);
  const int64_t channels = c.inputs[ScalePixels::kX].shape[1];  // the others are zeros
  return kernel([=, at_place = Places(layout, shape), padded = layout.has_padding() || channels < shape[1],
                 x = slots.inputs[ScalePixels::kX], scale = slots.inputs[ScalePixels::kScale],
                 offset = slots.inputs[ScalePixels::kOffset], y = slots.outputs[ScalePixels::kY]] {
    if (padded) std::memset(at<char>(y), 0, stored);
    parallel_rows(shape[0] * channels, shape[2] * shape[3], [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const int64_t n = plane / channels, channel = plane % channels;
        const float by = at<const float>(scale)[channel], plus = at<const float>(offset)[channel];
        T* to = at<T>(y) + n * at_place.sample + channel / at_place.lanes * at_place.block +
                channel % at_place.lanes;
        const uint8_t* from = at<const uint8_t>(x) + plane * shape[2] * shape[3];
        for (int64_t row = 0; row < shape[2]; ++row) {
          scale_row(from + row * shape[3], by, plus, shape[3], at_place.pixel, to + row * at_place.row);
        }
      }
    });
  });
}

std::unique_ptr<Kernel> compile_reading(const OpContext& c, const Choice&, const Slots& slots) {
  const Shape all = c.inputs[ReadSamples::kSamples].shape, made = c.outputs[ReadSamples::kPixels].shape;
  return kernel(
      [=, steps = static_cast<const ReadSamples&>(c.op).steps, in = slots.inputs, out = slots.outputs] {
        parallel_rows(made[0], numel(made) / made[0], [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row) {
            const int32_t number = at<const int32_t>(in[ReadSamples::kNumbers])[row],
                          epoch = at<const int32_t>(in[ReadSamples::kEpochs])[row];
            if (out[ReadSamples::kRowLabels] != nullptr)
              at<int32_t>(out[ReadSamples::kRowLabels])[row] =
                  number < 0 ? 0 : at<const int32_t>(in[ReadSamples::kLabels])[number];
            const uint8_t* from =
                at<const uint8_t>(in[ReadSamples::kSamples]) + number * all[1] * all[2] * all[3];
            uint8_t* to = at<uint8_t>(out[ReadSamples::kPixels]) + row * made[1] * made[2] * made[3];
            const DrawnSteps drawn = draw_steps(steps, epoch, number, all[2], all[3]);
            for (int64_t i = 0; i < made[1] * made[2] * made[3]; ++i) {
              int64_t y = i / made[3] % made[2], x = i % made[3];
              const bool inside = number >= 0 && source_place(steps, drawn, all[2], all[3], y, x);
              to[i] = inside ? from[(i / made[2] / made[3] * all[2] + y) * all[3] + x] : uint8_t{0};
            }
          }
        });
      });
}

}  // namespace

void add_pixels(Handlers& handlers) {
  auto select = [](const OpContext& context, const OpenLayouts& inputs) {
    return select_same(context, inputs, true);
  };
  auto compile = [](const OpContext& context, const Choice& choice, const Slots& slots) {
    return with_storage(context.outputs[ScalePixels::kY].dtype, [&](auto element) {
      return scaling_kernel<decltype(element)>(context, choice.outputs[ScalePixels::kY], slots);
    });
  };
  handlers[typeid(ScalePixels)] = {select, compile, {}};
  handlers[typeid(ReadSamples)] = {select_row_major, compile_reading, {}};
}

}  // namespace trainer::cpu
