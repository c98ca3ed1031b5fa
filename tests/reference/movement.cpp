// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/graph/ops/assign.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/concat.h"
#include "core/graph/ops/read_samples.h"
#include "core/graph/ops/reorder.h"
#include "core/graph/ops/scale_pixels.h"
#include "core/graph/ops/zeros.h"
#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

/// A shape around `axis`: (outer, dimension, inner).
struct Around {
  int64_t outer = 1, size = 1, inner = 1;
  Around(const Shape& shape, int64_t axis) : size(shape[static_cast<size_t>(axis)]) {
    for (int64_t d = 0; d < axis; ++d) outer *= shape[static_cast<size_t>(d)];
    inner = numel(shape) / outer / size;
  }
};

/// Bytes of an element as it is stored here: floats are doubles.
int64_t stored_width(DType dtype) {
  return is_floating(dtype) ? static_cast<int64_t>(sizeof(double)) : bytes_per_element(dtype);
}

void concat(const Call& call) {
  const int64_t axis = call.as<Concat>().axis;
  const Around y(call.shape_out(Concat::kY), axis);
  int64_t begin = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Around x(call.shape_in(i), axis);
    for (int64_t o = 0; o < x.outer; ++o) {
      for (int64_t e = 0; e < x.size; ++e) {
        std::copy_n(call.in(i) + (o * x.size + e) * x.inner, x.inner,
                    call.out(Concat::kY) + (o * y.size + begin + e) * y.inner);
      }
    }
    begin += x.size;
  }
}

void slice(const Call& call) {
  const auto& op = call.as<Slice>();
  const Around x(call.shape_in(Slice::kX), op.axis), y(call.shape_out(Slice::kY), op.axis);
  const int64_t width = stored_width(call.inputs[Slice::kX].dtype);
  const char* from = call.in<char>(Slice::kX);
  char* to = call.out<char>(Slice::kY);
  for (int64_t o = 0; o < y.outer; ++o) {
    for (int64_t e = 0; e < y.size; ++e) {
      std::copy_n(from + (o * x.size + op.begin + e) * x.inner * width, x.inner * width,
                  to + (o * y.size + e) * y.inner * width);
    }
  }
}

void copy(const TensorSpec& spec, const void* from, void* to) {
  std::memcpy(to, from, static_cast<size_t>(numel(spec.shape) * stored_width(spec.dtype)));
}

void reorder(const Call& call) {
  copy(call.inputs[Reorder::kX], *call.slots.inputs[Reorder::kX], *call.slots.outputs[Reorder::kY]);
}
void assign(const Call& call) {
  copy(call.inputs[Assign::kState], *call.slots.inputs[Assign::kValue], *call.slots.inputs[Assign::kState]);
}

/// If values are rounded, it is when the output is stored.
void cast(const Call& call) {
  std::copy_n(call.in(Cast::kX), call.count_in(Cast::kX), call.out(Cast::kY));
}

void scale_pixels(const Call& call) {
  const Shape &shape = call.shape_in(ScalePixels::kX), &made = call.shape_out(ScalePixels::kY);
  const int64_t area = shape[2] * shape[3];
  for (int64_t i = 0, count = call.count_out(ScalePixels::kY); i < count; ++i) {
    const int64_t channel = i / area % made[1], sample = i / area / made[1];
    const int64_t pixel = (sample * shape[1] + channel) * area + i % area;
    call.out(ScalePixels::kY)[i] = channel < shape[1] ? call.in(ScalePixels::kScale)[channel] *
                                                                call.in<uint8_t>(ScalePixels::kX)[pixel] +
                                                            call.in(ScalePixels::kOffset)[channel]
                                                      : 0;
  }
}

/// One image of one channel and the result of each step, as the host's transforms compute it.
struct Plane {
  int64_t height, width;
  std::vector<uint8_t> pixels;

  void mirror() {
    for (int64_t y = 0; y < height; ++y) {
      std::reverse(pixels.begin() + y * width, pixels.begin() + (y + 1) * width);
    }
  }
  void cut(const SampleStep& step, int64_t top, int64_t left) {
    std::vector<uint8_t> window;
    for (int64_t y = top; y < top + step.height; ++y) {
      for (int64_t x = left; x < left + step.width; ++x) {
        const bool inside = y >= 0 && y < height && x >= 0 && x < width;
        window.push_back(inside ? pixels[static_cast<size_t>(y * width + x)] : uint8_t{0});
      }
    }
    pixels = window, height = step.height, width = step.width;
  }
};

Plane changed(Plane plane, const SampleSteps& steps, int32_t epoch, int32_t number) {
  RandomStream random(steps.key, static_cast<uint32_t>(epoch), static_cast<uint32_t>(number));
  for (int i = 0; i < steps.count; ++i) {
    const SampleStep& step = steps.steps[i];
    if (step.mirrors) {
      if (static_cast<double>(random.next_uniform()) < step.p) plane.mirror();
      continue;
    }
    const int64_t top = random.next_below(plane.height + 2 * step.padding - step.height + 1) - step.padding;
    const int64_t left = random.next_below(plane.width + 2 * step.padding - step.width + 1) - step.padding;
    plane.cut(step, top, left);
  }
  return plane;
}

void read_samples(const Call& call) {
  const Shape &all = call.shape_in(ReadSamples::kSamples), &rows = call.shape_out(ReadSamples::kPixels);
  const int64_t area = all[2] * all[3], made = rows[2] * rows[3];
  for (int64_t n = 0; n < rows[0]; ++n) {
    const int32_t number = call.in<int32_t>(ReadSamples::kNumbers)[n];
    if (call.has_output(ReadSamples::kRowLabels))
      call.out<int32_t>(ReadSamples::kRowLabels)[n] =
          number < 0 ? 0 : call.in<int32_t>(ReadSamples::kLabels)[number];
    for (int64_t c = 0; c < rows[1]; ++c) {
      uint8_t* to = call.out<uint8_t>(ReadSamples::kPixels) + (n * rows[1] + c) * made;
      std::fill_n(to, made, uint8_t{0});
      if (number < 0) continue;
      const uint8_t* from = call.in<uint8_t>(ReadSamples::kSamples) + (number * all[1] + c) * area;
      const Plane plane = changed({all[2], all[3], {from, from + area}}, call.as<ReadSamples>().steps,
                                  call.in<int32_t>(ReadSamples::kEpochs)[n], number);
      std::copy(plane.pixels.begin(), plane.pixels.end(), to);
    }
  }
}

void zeros(const Call& call) {
  for (size_t o = 0; o < call.outputs.size(); ++o) std::fill_n(call.out(o), call.count_out(o), 0.0);
}

}  // namespace

void add_movement(Loops& loops) {
  loops[typeid(Cast)] = cast;
  loops[typeid(Concat)] = concat;
  loops[typeid(Slice)] = slice;
  loops[typeid(Reorder)] = reorder;
  loops[typeid(Assign)] = assign;
  loops[typeid(ReadSamples)] = read_samples;
  loops[typeid(ScalePixels)] = scale_pixels;
  loops[typeid(Zeros)] = zeros;
}

}  // namespace trainer::reference
