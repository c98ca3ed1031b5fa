// SPDX-License-Identifier: Apache-2.0
#include "cuda/guards.h"

#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/reduce.h"

namespace trainer::cuda {
namespace {

__device__ inline int32_t value_or_0(const int32_t* from) {
  return from == nullptr ? 0 : *from;
}

__device__ inline bool is_listed(const GuardInputs& in) {
  const int32_t step = value_or_0(in.steps) + 1;
  for (int64_t i = 0; in.pairs != nullptr && i < in.pair_numbers; i += 2) {
    if (in.pairs[i] <= step && step <= in.pairs[i + 1]) return true;
  }
  return false;
}

/// Of a number and those before, by all lanes of a warp, each for those that it writes too.
__device__ inline bool is_spike(double sigmas, float value, const float* window, const GuardInputs& in) {
  const int64_t accepted = *in.accepted, count = accepted < in.window_size ? accepted : in.window_size;
  if (count < SpikeLimit::fewest(in.window_size)) return false;
  double sum = 0, squares = 0;
  for (int64_t i = threadIdx.x; i < count; i += kWarp) sum += window[i];
  const double mean = warp_sum(sum) / static_cast<double>(count);
  for (int64_t i = threadIdx.x; i < count; i += kWarp) {
    const double distance = window[i] - mean;
    squares += distance * distance;
  }
  return SpikeLimit::is_spike(sigmas, value, mean, warp_sum(squares), count);
}

/// One warp.
__global__ void __launch_bounds__(kWarp) guard_step(bool scaled, GuardInputs in, GuardOutputs out) {
  wait_for_previous_kernels();
  const float loss = *in.loss;
  const float norm = in.norm == nullptr ? 0 : *in.norm;
  StepFacts step{.listed = is_listed(in), .finite_loss = loss - loss == 0};
  step.found = in.found != nullptr && *in.found != 0;
  if (in.window != nullptr) {
    if (in.loss_sigmas > 0) step.loss_jumps = is_spike(in.loss_sigmas, loss, in.window, in);
    if (in.norm_sigmas > 0) {
      step.norm_jumps = is_spike(in.norm_sigmas, norm, in.window + in.window_size, in) || norm - norm != 0;
    }
  }
  const StepVerdict verdict = StepVerdict::of(step, scaled);
  const int32_t accepted = value_or_0(in.accepted), skipped = verdict.skipped(value_or_0(in.skipped)),
                in_a_row = verdict.in_a_row(value_or_0(in.in_a_row));
  if (in.window != nullptr && out.window != nullptr) {
    const int64_t place = verdict.skip ? -1 : accepted % in.window_size;
    for (int64_t i = threadIdx.x; i < in.window_size; i += kWarp) {
      for (const int64_t at : {i, i + in.window_size}) {
        if (i == place) {
          out.window[at] = at == i ? loss : norm;
        } else if (out.window != in.window) {
          out.window[at] = in.window[at];
        }
      }
    }
  }
  __syncthreads();  // the counters have been read by all
  if (threadIdx.x != 0) return;
  if (out.skip != nullptr) *out.skip = verdict.skip ? 1.0f : 0.0f;
  if (out.held != nullptr) *out.held = verdict.held() ? 1.0f : 0.0f;
  if (out.reason != nullptr) *out.reason = static_cast<int32_t>(verdict.reason);
  if (out.accepted != nullptr) *out.accepted = accepted + (verdict.skip ? 0 : 1);
  if (out.skipped != nullptr) *out.skipped = skipped;
  if (out.in_a_row != nullptr) *out.in_a_row = in_a_row;
}

__global__ void __launch_bounds__(kThreads)
    keep_or_take(const float* old, const float* fresh, const float* skip, float* y, int64_t count) {
  wait_for_previous_kernels();
  const float* from = *skip != 0 ? old : fresh;
  if (from == y) return;
  for (int64_t i = first_element(); i < count; i += all_elements()) {
    store(load(from + i, count - i), count - i, y + i);
  }
}

}  // namespace

cudaError_t launch_step_guard(bool scaled, const GuardInputs& in, const GuardOutputs& out,
                              cudaStream_t stream) {
  return launch(guard_step, dim3(1), dim3(kWarp), stream, scaled, in, out);
}

cudaError_t launch_keep(const float* old, const float* fresh, const float* skip, float* y, int64_t count,
                        cudaStream_t stream) {
  return launch(keep_or_take, blocks_for(count), dim3(kThreads), stream, old, fresh, skip, y, count);
}

}  // namespace trainer::cuda
