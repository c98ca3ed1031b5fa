// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/fake_quantize.h"

#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/reduce.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

/// The blocks that search a tensor for its extremes; every block that rounds reads what each of them found.
constexpr unsigned kMostParts = 1024;

/// Whether numbers are rounded in this step.
struct Begins {
  FakeQuantizeBegin begin;
  const int32_t* step;  ///< or nullptr
  __device__ bool has_come() const { return begin.has_come(step); }
};

/// Of all threads of a block, for each of them.
__device__ inline Extremes block_extremes(Extremes own) {
  constexpr int kWarps = kThreads / kWarp;
  TRAINER_SHARED(float, lows, [kWarps]);
  TRAINER_SHARED(float, highs, [kWarps]);
  own.low = warp_reduce(own.low, [](float a, float b) { return Extremes::lower(a, b); });
  own.high = warp_reduce(own.high, [](float a, float b) { return Extremes::higher(a, b); });
  if (threadIdx.x % kWarp == 0) {
    lows[threadIdx.x / kWarp] = own.low;
    highs[threadIdx.x / kWarp] = own.high;
  }
  __syncthreads();
  for (int warp = 0; warp < kWarps; ++warp) own.add(Extremes{lows[warp], highs[warp]});
  return own;
}

__device__ inline float magnitude_of(const Extremes& extremes) {
  return -extremes.low > extremes.high ? -extremes.low : extremes.high;
}

/// Lows and highs of parts, one after another.
struct Parts {
  float* of;
  unsigned count;
};

__global__ void __launch_bounds__(kThreads) find_extremes(const float* x, int64_t count, Parts parts) {
  wait_for_previous_kernels();
  Extremes own;
  for (int64_t i = first_element(); i < count; i += all_elements()) {
    const Octet octet = load(x + i, count - i);
#pragma unroll
    for (int k = 0; k < Octet::kSize; ++k) own.add(octet.v[k]);
  }
  own = block_extremes(own);
  if (threadIdx.x != 0) return;
  parts.of[blockIdx.x] = own.low;
  parts.of[parts.count + blockIdx.x] = own.high;
}

/// Of the whole tensor, for each thread of a block.
__device__ inline Extremes extremes_of(const Parts& parts) {
  Extremes own;
  for (unsigned part = threadIdx.x; part < parts.count; part += kThreads)
    own.add(Extremes{parts.of[part], parts.of[parts.count + part]});
  return block_extremes(own);
}

__device__ inline float rounded_weight(const WeightLevels& levels, float weight, float scale) {
  return scale == 0.0f ? weight : static_cast<float>(levels.integer_of(weight, scale)) * scale;
}

/// A block for each output.
__global__ void __launch_bounds__(kThreads)
    round_outputs(WeightLevels levels, Begins begins, int64_t each, const float* w, float* y) {
  wait_for_previous_kernels();
  const int64_t first = blockIdx.x * each;
  Extremes own;
  for (int64_t i = threadIdx.x; i < each; i += kThreads) own.add(w[first + i]);
  const float scale = begins.has_come() ? levels.scale_of(magnitude_of(block_extremes(own))) : 0.0f;
  for (int64_t i = threadIdx.x; i < each; i += kThreads)
    y[first + i] = rounded_weight(levels, w[first + i], scale);
}

__global__ void __launch_bounds__(kThreads)
    round_tensor(WeightLevels levels, Begins begins, int64_t count, Parts parts, const float* w, float* y) {
  wait_for_previous_kernels();
  const float scale = begins.has_come() ? levels.scale_of(magnitude_of(extremes_of(parts))) : 0.0f;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count;
       i += gridDim.x * int64_t{kThreads})
    y[i] = rounded_weight(levels, w[i], scale);
}

/// Without parts the range stays as it is.
__global__ void __launch_bounds__(kThreads)
    round_activations(ActivationLevels levels, Begins begins, int64_t count, Parts parts, const float* range,
                      const float* x, float* y, float* fresh) {
  wait_for_previous_kernels();
  Extremes used{range[0], range[1]};
  if (parts.count > 0) {
    const Extremes seen = extremes_of(parts);
    if (fresh != nullptr && blockIdx.x == 0 && threadIdx.x == 0) {
      fresh[0] = FakeQuantize::fresh_low(used.low, seen.low);
      fresh[1] = FakeQuantize::fresh_high(used.high, seen.high);
    }
    used.add(seen);
  }
  RangeScale scale = levels.of_range(used.low, used.high);
  if (!begins.has_come()) scale.scale = 0;
  const LevelRounding rounded(scale, levels);
  for (int64_t i = first_element(); i < count; i += all_elements()) {
    Octet octet = load(x + i, count - i);
#pragma unroll
    for (int k = 0; k < Octet::kSize; ++k) octet.v[k] = rounded(octet.v[k]);
    store(octet, count - i, y + i);
  }
}

unsigned parts_for(int64_t count) {
  return std::min(blocks_for(count).x, kMostParts);
}

int64_t bytes_for_parts(int64_t count) {
  return 2 * static_cast<int64_t>(sizeof(float)) * parts_for(count);
}

Choice select_weights(const Gpu&, const OpContext& context, const OpenLayouts&) {
  using Op = FakeQuantizeWeights;
  const bool per_tensor = static_cast<const Op&>(context.op).levels.per_tensor;
  Choice choice = row_major(context, per_tensor ? "all outputs together" : "output by output");
  if (per_tensor) {
    choice.workspace_bytes = bytes_for_parts(numel(context.inputs[Op::kWeight].shape));
    choice.kernels = 2;
  }
  return choice;
}

std::unique_ptr<Kernel> compile_weights(const Gpu& gpu, const OpContext& context, const Choice&,
                                        const Slots& slots) {
  using Op = FakeQuantizeWeights;
  const auto& op = static_cast<const Op&>(context.op);
  const Shape& shape = context.inputs[Op::kWeight].shape;
  return kernel(context,
                [=, levels = op.levels, begin = op.begin, outputs = shape[0], count = numel(shape),
                 stream = gpu.stream.get(), in = slots.inputs[Op::kWeight], out = slots.outputs[Op::kY],
                 step = slots.inputs[Op::kStep], workspace = slots.workspace] {
                  const auto* w = at<const float>(in);
                  auto* y = at<float>(out);
                  const Begins begins{begin, optional_at<const int32_t>(step)};
                  if (!levels.per_tensor)
                    return launch(round_outputs, dim3(static_cast<unsigned>(outputs)), dim3(kThreads), stream,
                                  levels, begins, count / outputs, w, y);
                  const Parts parts{at<float>(workspace), parts_for(count)};
                  const cudaError_t status =
                      launch(find_extremes, dim3(parts.count), dim3(kThreads), stream, w, count, parts);
                  if (status != cudaSuccess) return status;
                  return launch(round_tensor, dim3(parts.count), dim3(kThreads), stream, levels, begins,
                                count, parts, w, y);
                });
}

Choice select_activations(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  using Op = FakeQuantize;
  Choice choice = same_layout(context, inputs, "octets");
  if (static_cast<const Op&>(context.op).moves) {
    choice.workspace_bytes = bytes_for_parts(numel(context.inputs[Op::kX].shape));
    choice.kernels = 2;
  }
  return choice;
}

std::unique_ptr<Kernel> compile_activations(const Gpu& gpu, const OpContext& context, const Choice&,
                                            const Slots& slots) {
  using Op = FakeQuantize;
  const auto& op = static_cast<const Op&>(context.op);
  const bool has_fresh = op.moves && context.has_output(Op::kFresh);
  return kernel(
      context,
      [levels = op.levels, begin = op.begin, moves = op.moves, count = numel(context.inputs[Op::kX].shape),
       stream = gpu.stream.get(), in = slots.inputs[Op::kX], range = slots.inputs[Op::kRange],
       step = slots.inputs[Op::kStep], out = slots.outputs[Op::kY],
       fresh = has_fresh ? slots.outputs[Op::kFresh] : nullptr, workspace = slots.workspace] {
        const auto* x = at<const float>(in);
        Parts parts{nullptr, 0};
        if (moves) {
          parts = {at<float>(workspace), parts_for(count)};
          const cudaError_t status =
              launch(find_extremes, dim3(parts.count), dim3(kThreads), stream, x, count, parts);
          if (status != cudaSuccess) return status;
        }
        return launch(round_activations, blocks_for(count), dim3(kThreads), stream, levels,
                      Begins{begin, optional_at<const int32_t>(step)}, count, parts, at<const float>(range),
                      x, at<float>(out), optional_at<float>(fresh));
      });
}

}  // namespace

void add_fake_quantize(Handlers& handlers) {
  handlers[typeid(FakeQuantizeWeights)] = {select_weights, compile_weights, {}};
  handlers[typeid(FakeQuantize)] = {select_activations, compile_activations, {}};
}

}  // namespace trainer::cuda
