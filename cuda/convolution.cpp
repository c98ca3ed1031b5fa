// SPDX-License-Identifier: Apache-2.0
#include "cuda/convolution.h"
#include "cuda/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/graph/ops/conv2d.h"
#include "cuda/bound_plan.h"

namespace trainer::cuda {
namespace {

using cudnn::ConvolutionGraph;
using Kind = ConvolutionGraph::Kind;

constexpr const char* kCudnn = "cudnn";
constexpr const char* kThenBias = "cudnn, add_bias";
constexpr const char* kThenCast = "cudnn, cast";
constexpr const char* kAndColumnSums = "cudnn, column_sums";
constexpr const char* kThenCastAndColumnSums = "cudnn, cast, column_sums";
constexpr const char* kColumnSums = "column_sums";

Matrix as_matrix(const TensorSpec& images) {
  const int64_t channels = images.shape[1];
  return {.rows = numel(images.shape) / channels, .columns = channels, .dtype = images.dtype};
}

const char* implementation(const ConvolutionChoice& chosen, bool bias_gradient) {
  if (chosen.whole.kind == Kind::forward) return chosen.is_split() ? kThenBias : kCudnn;
  if (chosen.is_split()) return bias_gradient ? kThenCastAndColumnSums : kThenCast;
  return bias_gradient ? kAndColumnSums : kCudnn;
}

/// Whether an own kernel completes what cuDNN began.
bool is_split(const Choice& choice) {
  const std::string& name = choice.implementation;
  return name == kThenBias || name == kThenCast || name == kThenCastAndColumnSums;
}

Choice select(const Gpu& gpu, const OpContext& context, const OpenLayouts&) {
  Choice choice = all_channels_last(context, kColumnSums);
  if (is_wanted(context, 0)) {
    const ConvolutionChoice chosen = *choose_convolution(gpu, context);
    choice.implementation = implementation(chosen, is_wanted(context, 1));
    choice.algorithm = chosen.engine.text;
    choice.workspace_bytes = chosen.workspace_bytes();
    choice.tensor_cores = chosen.engine.tensor_cores;
    if (chosen.is_split()) {  // the kernel behind reads what cuDNN wrote, and writes it again
      choice.kernels = 2;
      choice.again_bytes = 2 * numel(context.outputs[0].shape) * bytes_per_element(chosen.graph.dtype);
    }
  } else {
    choice.kernels = 0;
  }
  if (is_wanted(context, 1)) {
    choice.kernels += kColumnSumsKernels;
    choice.again_bytes += bytes_of(context.inputs[1]);
    choice.workspace_bytes =
        std::max(choice.workspace_bytes, column_sums_workspace(as_matrix(context.inputs[1])));
  }
  return choice;
}

std::optional<std::string> why_not_convolution(const Gpu& gpu, const OpContext& context) {
  const DType dtype = context.inputs[0].dtype;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    return fmt::format("cuDNN convolves f32, f16 and bf16, not {}", to_string(dtype));
  if (!is_wanted(context, 0)) return std::nullopt;
  const bool gradient = dynamic_cast<const Conv2dBackwardWeights*>(&context.op) != nullptr;
  const DType expected = gradient ? DType::f32 : dtype;
  if (context.inputs[1].dtype != dtype || context.outputs[0].dtype != expected) {
    return fmt::format("cuDNN needs one type for all tensors, got {}, {} and {}", to_string(dtype),
                       to_string(context.inputs[1].dtype), to_string(context.outputs[0].dtype));
  }
  if (choose_convolution(gpu, context)) return std::nullopt;
  const ConvolutionGraph graph = convolution_alone(convolution_graph(gpu, context));
  const std::string& reason = gpu.cudnn->ask(graph).refusal;
  return fmt::format("{} has no engine for {}{}", gpu.cudnn->title(), graph.text(),
                     reason.empty() ? "" : ": " + reason);
}

using Tensors = std::vector<BoundTensor>;

/// A gradient that is converted afterwards lies in the workspace.
Tensors tensors_of(const ConvolutionChoice& chosen, const Slots& slots) {
  switch (chosen.graph.kind) {
    case Kind::forward:
      break;
    case Kind::backward_data:
      return {{cudnn::kY, slots.inputs[0]}, {cudnn::kW, slots.inputs[1]}, {cudnn::kX, slots.outputs[0]}};
    case Kind::backward_weights:
      return {{cudnn::kX, slots.inputs[0]},
              {cudnn::kY, slots.inputs[1]},
              {cudnn::kW, chosen.is_split() ? slots.workspace : slots.outputs[0]}};
  }
  Tensors tensors{{cudnn::kX, slots.inputs[0]}, {cudnn::kW, slots.inputs[1]}, {cudnn::kY, slots.outputs[0]}};
  if (chosen.graph.bias) tensors.push_back({cudnn::kBias, slots.inputs[2]});
  return tensors;
}

using Step = std::function<cudaError_t()>;

/// What of the convolution itself an own kernel does, if anything.
Step rest_of(const ConvolutionChoice& chosen, const Slots& slots, cudaStream_t stream) {
  if (!chosen.is_split()) return [] { return cudaSuccess; };
  void* const* from = chosen.whole.converts() ? slots.workspace : slots.inputs[2];
  return [whole = chosen.whole, from, to = slots.outputs[0], stream] {
    return launch_rest(whole, optional_at<const void>(from), *to, stream);
  };
}

/// The gradient of the bias, where it is wanted. Its workspace is that of what ran before.
Step bias_gradient(const OpContext& context, const Slots& slots, cudaStream_t stream) {
  if (!is_wanted(context, 1)) return [] { return cudaSuccess; };
  return [=, dy = as_matrix(context.inputs[1]), dtype = context.outputs[1].dtype] {
    return launch_column_sums(dy, *slots.inputs[1], *slots.outputs[1], dtype, *slots.workspace, stream);
  };
}

std::unique_ptr<Kernel> compile(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                const Slots& slots) {
  cudaStream_t stream = gpu.stream.get();
  Step sums = bias_gradient(context, slots, stream);
  if (choice.implementation == kColumnSums) return kernel(context, sums);
  const ConvolutionGraph whole = convolution_graph(gpu, context);
  const ConvolutionChoice chosen{
      whole, is_split(choice) ? convolution_alone(whole) : whole, {.text = choice.algorithm}};
  gpu.cudnn->share(chosen.graph, chosen.engine.text);
  BoundPlan plan(gpu.cudnn->plan(chosen.graph, chosen.engine.text), tensors_of(chosen, slots),
                 slots.workspace, chosen.unconverted_bytes());
  return kernel(context, [plan = std::move(plan), rest = rest_of(chosen, slots, stream),
                          sums = std::move(sums)]() mutable {
    plan.run();
    const cudaError_t status = rest();
    return status == cudaSuccess ? sums() : status;
  });
}

}  // namespace

void add_convolution(Handlers& handlers) {
  const Handler handler{.select = select, .compile = compile, .why_not = why_not_convolution};
  handlers[typeid(Conv2d)] = handlers[typeid(Conv2dBackwardData)] = handlers[typeid(Conv2dBackwardWeights)] =
      handler;
}

}  // namespace trainer::cuda
