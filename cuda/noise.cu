// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/noise.h"

#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

/// Images in row-major order, and what their noise is drawn by.
struct NoisyImages {
  int64_t count, of_sample, area;  ///< images; elements of one, and of a channel
  uint64_t key;
  const int32_t *sample, *step;  ///< step: null for 0
  const float *scale, *offset;
};

/// A thread draws for four elements at a time.
template <class Rule>
__global__ void __launch_bounds__(kThreads) noisy(Rule rule, NoisyImages images, const float* x, float* y) {
  wait_for_previous_kernels();
  const int64_t blocks = (images.of_sample + 3) / 4, stride = static_cast<int64_t>(gridDim.x) * kThreads;
  const int32_t step = images.step == nullptr ? 0 : *images.step;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < images.count * blocks;
       i += stride) {
    const int64_t image = i / blocks, block = i % blocks;
    const Words words = philox(images.key, element_counter(block, images.sample[image], step));
    const DrawnPair<float> low = rule.template draw<float>(words.v[0], words.v[1]),
                           high = rule.template draw<float>(words.v[2], words.v[3]);
    const float drawn[4] = {low.first, low.second, high.first, high.second};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int64_t element = 4 * block + k;
      if (element >= images.of_sample) break;
      const int64_t channel = element / images.area, place = image * images.of_sample + element;
      y[place] = rule.apply(x[place], drawn[k], images.scale[channel], images.offset[channel]);
    }
  }
}

/// Elements are numbered in row-major order.
Choice select(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return row_major(context, "loop");
}

std::unique_ptr<Kernel> compile(const Gpu& gpu, const OpContext& context, const Choice&, const Slots& slots) {
  const auto& op = static_cast<const Noise&>(context.op);
  const Shape shape = context.inputs[Noise::kX].shape;
  const auto make = [&](const auto& rule) -> std::unique_ptr<Kernel> {
    using Rule = std::decay_t<decltype(rule)>;
    return kernel(context, [=, key = op.key, stream = gpu.stream.get(), in = slots.inputs,
                            out = slots.outputs[Noise::kY]] {
      const NoisyImages images{.count = shape[0],
                               .of_sample = numel(shape) / shape[0],
                               .area = shape[2] * shape[3],
                               .key = key,
                               .sample = at<const int32_t>(in[Noise::kSample]),
                               .step = optional_at<const int32_t>(in[Noise::kStep]),
                               .scale = at<const float>(in[Noise::kScale]),
                               .offset = at<const float>(in[Noise::kOffset])};
      return launch(noisy<Rule>, blocks_for(2 * numel(shape)), dim3(kThreads), stream, rule, images,
                    at<const float>(in[Noise::kX]), at<float>(out));
    });
  };
  return std::visit(make, op.rule);
}

}  // namespace

void add_noise(Handlers& handlers) {
  handlers[typeid(Noise)] = {select, compile, {}};
}

}  // namespace trainer::cuda
