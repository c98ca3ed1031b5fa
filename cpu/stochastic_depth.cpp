// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/stochastic_depth.h"

#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

template <class T>
TRAINER_MULTIVERSION void scale_range(float factor, const T* x, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) put(factor * float(x[i]), y[i]);
}

/// Any layout in which a sample's elements are adjacent.
Choice select_dropping(const OpContext& context, const OpenLayouts& inputs) {
  const Shape& shape = context.inputs[StochasticDepth::kX].shape;
  const Layout layout = inputs[StochasticDepth::kX].value_or(Layout{});
  const bool together =
      layout.row_major() || (layout.dims == shape && layout.padded[0] == shape[0] &&
                             layout.strides[0] * shape[0] == stored_elements(layout, shape));
  return select_same(context, {together ? layout : Layout{}}, true);
}

std::unique_ptr<Kernel> compile_dropping(const OpContext& context, const Choice& choice, const Slots& slots) {
  const DropoutSettings settings = static_cast<const StochasticDepth&>(context.op).settings;
  const int64_t samples = context.inputs[StochasticDepth::kX].shape[0];
  const int64_t width =
      stored_elements(choice.inputs[StochasticDepth::kX], context.inputs[StochasticDepth::kX].shape) /
      samples;
  return with_storage(context.inputs[StochasticDepth::kX].dtype, [&](auto element) {
    using T = decltype(element);
    return kernel([=, x = slots.inputs[StochasticDepth::kX], sample = slots.inputs[StochasticDepth::kSample],
                   step = slots.inputs[StochasticDepth::kStep], y = slots.outputs[StochasticDepth::kY]] {
      parallel_rows(samples, width, [=](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          const float factor =
              StochasticDepth::factor(settings, at<const int32_t>(sample)[n], *at<const int32_t>(step));
          scale_range(factor, at<const T>(x) + n * width, at<T>(y) + n * width, width);
        }
      });
    });
  });
}

}  // namespace

void add_stochastic_depth(Handlers& handlers) {
  handlers[typeid(StochasticDepth)] = {select_dropping, compile_dropping, {}};
}

}  // namespace trainer::cpu
