// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "core/graph/ops/assign.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/concat.h"
#include "core/graph/ops/reorder.h"
#include "core/graph/ops/scale_pixels.h"
#include "tests/reference/loop.h"

namespace trainer::reference {
namespace {

/// A shape around `axis`: (outer, extent, inner).
struct Around {
  int64_t outer = 1, extent = 1, inner = 1;
  Around(const Shape& shape, int64_t axis) : extent(shape[static_cast<size_t>(axis)]) {
    for (int64_t d = 0; d < axis; ++d) outer *= shape[static_cast<size_t>(d)];
    inner = numel(shape) / outer / extent;
  }
};

void concat(const Call& call) {
  const int64_t axis = call.as<Concat>().axis;
  const Around y(call.shape_out(0), axis);
  int64_t begin = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Around x(call.shape_in(i), axis);
    for (int64_t o = 0; o < x.outer; ++o) {
      for (int64_t e = 0; e < x.extent; ++e) {
        std::copy_n(call.in(i) + (o * x.extent + e) * x.inner, x.inner,
                    call.out(0) + (o * y.extent + begin + e) * y.inner);
      }
    }
    begin += x.extent;
  }
}

void slice(const Call& call) {
  const auto& op = call.as<Slice>();
  const Around x(call.shape_in(0), op.axis), y(call.shape_out(0), op.axis);
  for (int64_t o = 0; o < y.outer; ++o) {
    for (int64_t e = 0; e < y.extent; ++e) {
      std::copy_n(call.in(0) + (o * x.extent + op.begin + e) * x.inner, x.inner,
                  call.out(0) + (o * y.extent + e) * y.inner);
    }
  }
}

void copy(const TensorSpec& spec, const void* from, void* to) {
  const auto width =
      is_floating(spec.dtype) ? static_cast<int64_t>(sizeof(double)) : bytes_per_element(spec.dtype);
  std::memcpy(to, from, static_cast<size_t>(numel(spec.shape) * width));
}

void reorder(const Call& call) {
  copy(call.inputs[0], *call.slots.inputs[0], *call.slots.outputs[0]);
}
void assign(const Call& call) {
  copy(call.inputs[0], *call.slots.inputs[1], *call.slots.inputs[0]);
}

/// Whoever rounds does so where the output is stored.
void cast(const Call& call) {
  std::copy_n(call.in(0), call.count_in(0), call.out(0));
}

void scale_pixels(const Call& call) {
  const Shape& shape = call.shape_in(0);
  const int64_t area = shape[2] * shape[3];
  for (int64_t i = 0; i < call.count_in(0); ++i) {
    const int64_t channel = i / area % shape[1];
    call.out(0)[i] = call.in(1)[channel] * call.in<uint8_t>(0)[i] + call.in(2)[channel];
  }
}

}  // namespace

void add_movement(Loops& loops) {
  loops[typeid(Cast)] = cast;
  loops[typeid(Concat)] = concat;
  loops[typeid(Slice)] = slice;
  loops[typeid(Reorder)] = reorder;
  loops[typeid(Assign)] = assign;
  loops[typeid(ScalePixels)] = scale_pixels;
}

}  // namespace trainer::reference
