// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/element_loss.h"

#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/reduce.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

/// Elements of a block: eight for each thread.
constexpr int64_t kPart = int64_t{8} * kThreads;

/// Inputs of the kernels. No layout of the GPU has padding or mixes samples, so elements are used in memory
/// order.
struct Elements {
  int64_t of_sample, per_sample;  ///< elements of a sample, and parts
  const float* weight;            ///< of samples
  const float* positive;          ///< of a sample's elements; may be null
};

/// The part of a sample that a block takes.
struct BlockPart {
  int64_t sample, begin, end;  ///< elements within the sample
  __device__ explicit BlockPart(const Elements& all)
      : sample(blockIdx.x / all.per_sample), begin(blockIdx.x % all.per_sample * kPart), end(begin + kPart) {
    if (end > all.of_sample) end = all.of_sample;
  }
};

template <class Rule, class T>
__global__ void __launch_bounds__(kThreads)
    sum_elements(Rule rule, Elements all, const T* x, const T* t, double* partial) {
  wait_for_previous_kernels();
  const BlockPart part(all);
  const float weight = all.weight[part.sample];
  double sum = 0;
  if (weight != 0) {
    const T *of_x = x + part.sample * all.of_sample, *of_t = t + part.sample * all.of_sample;
    for (int64_t i = part.begin + threadIdx.x; i < part.end; i += kThreads) {
      const float positive = all.positive == nullptr ? 1.0f : all.positive[i];
      sum += rule.loss(to_float(of_x[i]), to_float(of_t[i]), positive);
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = weight * sum;
}

__global__ void __launch_bounds__(kThreads)
    add_parts(const double* partial, int64_t count, double of_sample, float* total) {
  wait_for_previous_kernels();
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total = static_cast<float>(sum / of_sample);
}

template <class Rule, class T>
__global__ void __launch_bounds__(kThreads)
    element_gradients(Rule rule, Elements all, const float* dloss, const T* x, const T* t, T* dx) {
  wait_for_previous_kernels();
  const BlockPart part(all);
  const float scale = *dloss / static_cast<float>(all.of_sample) * all.weight[part.sample];
  const int64_t first = part.sample * all.of_sample;
  for (int64_t i = part.begin + threadIdx.x; i < part.end; i += kThreads) {
    const float positive = all.positive == nullptr ? 1.0f : all.positive[i];
    put(scale * rule.gradient(to_float(x[first + i]), to_float(t[first + i]), positive), dx[first + i]);
  }
}

/// As the operation `Op` reads them.
template <class Op>
Elements elements_of(const ElementParts& parts, const Slots& slots) {
  return {parts.of_sample, parts.per_sample, at<const float>(slots.inputs[Op::kWeights]),
          optional_at<const float>(slots.inputs[Op::kPositive])};
}

dim3 blocks_of(const ElementParts& parts) {
  return dim3(static_cast<unsigned>(parts.count()));
}

/// Calls go(rule, T{}).
template <class Go>
cudaError_t with_rule(const element_loss::Rule& rule, DType dtype, const Go& go) {
  return std::visit([&](auto r) { return with_storage(dtype, [&](auto type) { return go(r, type); }); },
                    rule);
}

std::unique_ptr<Kernel> compile_element_loss(const Gpu& gpu, const OpContext& context, const Choice&,
                                             const Slots& slots) {
  return kernel(context, [=, rule = static_cast<const ElementLoss&>(context.op).rule,
                          parts = ElementParts(context.inputs[ElementLoss::kX].shape, kPart),
                          dtype = context.inputs[ElementLoss::kX].dtype, stream = gpu.stream.get()] {
    auto* partial = static_cast<double*>(*slots.workspace);
    const cudaError_t status = with_rule(rule, dtype, [&](auto r, auto type) {
      using T = decltype(type);
      return launch(sum_elements<decltype(r), T>, blocks_of(parts), dim3(kThreads), stream, r,
                    elements_of<ElementLoss>(parts, slots), at<const T>(slots.inputs[ElementLoss::kX]),
                    at<const T>(slots.inputs[ElementLoss::kTargets]), partial);
    });
    if (status != cudaSuccess) return status;
    return launch(add_parts, dim3(1), dim3(kThreads), stream, partial, parts.count(),
                  static_cast<double>(parts.of_sample), at<float>(slots.outputs[ElementLoss::kLoss]));
  });
}

std::unique_ptr<Kernel> compile_element_loss_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                                      const Slots& slots) {
  return kernel(context, [=, rule = static_cast<const ElementLossBackward&>(context.op).rule,
                          parts = ElementParts(context.inputs[ElementLossBackward::kX].shape, kPart),
                          dtype = context.inputs[ElementLossBackward::kX].dtype, stream = gpu.stream.get()] {
    return with_rule(rule, dtype, [&](auto r, auto type) {
      using T = decltype(type);
      return launch(element_gradients<decltype(r), T>, blocks_of(parts), dim3(kThreads), stream, r,
                    elements_of<ElementLossBackward>(parts, slots),
                    at<const float>(slots.inputs[ElementLossBackward::kDloss]),
                    at<const T>(slots.inputs[ElementLossBackward::kX]),
                    at<const T>(slots.inputs[ElementLossBackward::kTargets]),
                    at<T>(slots.outputs[ElementLossBackward::kDx]));
    });
  });
}

Choice select_gradients(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return all_channels_last(context, "loop");
}

Choice select_sum(const Gpu& gpu, const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_gradients(gpu, context, inputs);
  choice.workspace_bytes = ElementParts(context.inputs[ElementLoss::kX].shape, kPart).count() *
                           static_cast<int64_t>(sizeof(double));
  choice.kernels = 2;
  return choice;
}

}  // namespace

void add_element_loss(Handlers& handlers) {
  handlers[typeid(ElementLoss)] = {select_sum, compile_element_loss, floats_only};
  handlers[typeid(ElementLossBackward)] = {select_gradients, compile_element_loss_backward, floats_only};
}

}  // namespace trainer::cuda
