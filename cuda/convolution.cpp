// SPDX-License-Identifier: Apache-2.0
#include "cuda/convolution.h"
#include "cuda/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/graph/ops/conv2d.h"
#include "cuda/convolution_product.h"

namespace trainer::cuda {
namespace {

using cudnn::ConvolutionGraph;
using Kind = ConvolutionGraph::Kind;

// An implementation is named after the library, followed by our own kernels.
constexpr const char* kThenBias = ", add_bias";
constexpr const char* kThenSums = ", channel_sums";
constexpr const char* kThenCast = ", cast";
constexpr const char* kAndColumnSums = ", column_sums";
constexpr const char* kColumnSums = "column_sums";

/// Common parts of all three convolutions: two factors, and the result.
constexpr size_t kFirstFactor = 0, kSecondFactor = 1, kConvolved = 0;
static_assert(Conv2d::kWeight == kSecondFactor && Conv2dBackwardData::kWeight == kSecondFactor &&
              Conv2dBackwardWeights::kDy == kSecondFactor);
static_assert(Conv2d::kY == kConvolved && Conv2dBackwardData::kDx == kConvolved &&
              Conv2dBackwardWeights::kDweight == kConvolved);

Matrix as_matrix(const TensorSpec& images) {
  const int64_t channels = images.shape[1];
  return {.rows = numel(images.shape) / channels, .columns = channels, .dtype = images.dtype};
}

bool wants_bias_gradient(const OpContext& context) {
  return dynamic_cast<const Conv2dBackwardWeights*>(&context.op) != nullptr &&
         context.has_output(Conv2dBackwardWeights::kDbias);
}

std::string implementation(const ConvolutionChoice& chosen, bool bias_gradient) {
  std::string name = chosen.is_product() ? "cublaslt" : "cudnn";
  if (chosen.is_split())
    name += chosen.whole.moments ? kThenSums : chosen.whole.converts() ? kThenCast : kThenBias;
  return bias_gradient ? name + kAndColumnSums : name;
}

/// Whether one of our kernels completes the library's work.
bool is_split(const Choice& choice) {
  return std::ranges::any_of(std::array{kThenBias, kThenSums, kThenCast}, [&](const char* rest) {
    return choice.implementation.find(rest) != std::string::npos;
  });
}

Choice select(const Gpu& gpu, const OpContext& context, const OpenLayouts&) {
  Choice choice = all_channels_last(context, kColumnSums);
  if (context.has_output(kConvolved)) {
    const ConvolutionChoice chosen = *choose_convolution(gpu, context);
    choice.implementation = implementation(chosen, wants_bias_gradient(context));
    choice.algorithm = chosen.engine.text;
    choice.workspace_bytes = chosen.workspace_bytes();
    // Assumed of the engines that sum their results: cuDNN has no note for it.
    choice.tensor_cores = chosen.engine.tensor_cores || chosen.graph.moments;
    if (chosen.whole.moments) {
      choice.kernels = summing_kernels(chosen, context);
      if (chosen.is_split()) choice.again_bytes = bytes_of(context.outputs[kConvolved]);
    } else if (chosen.is_split()) {  // the next kernel reads cuDNN's output, and writes it again
      choice.kernels = 2;
      choice.again_bytes =
          2 * numel(context.outputs[kConvolved].shape) * bytes_per_element(chosen.graph.dtype);
    }
  } else {
    choice.kernels = 0;
  }
  if (wants_bias_gradient(context)) {
    choice.kernels += kColumnSumsKernels;
    choice.again_bytes += bytes_of(context.inputs[Conv2dBackwardWeights::kDy]);
    choice.workspace_bytes = std::max(
        choice.workspace_bytes, column_sums_workspace(as_matrix(context.inputs[Conv2dBackwardWeights::kDy])));
  }
  return choice;
}

/// Images of so few channels, as a network's first ones, do not fill a tensor core's rows.
constexpr int64_t kFewChannels = 4;

/// Sums of squares have enough digits for low types, not for f32. If only a fallback engine
/// computes them, batch normalisation uses its own pass; so the program does not depend on timings.
/// cuDNN 9.19's engines add up sums in any order, without a note that says so: on an H200 the first loss of
/// ResNet-18 differed from run to run. Of 256 images of four channels they need 4.5 ms, where the convolution
/// alone needs 0.5.
std::optional<std::string> why_not_moments(const Gpu& gpu, const ConvolutionGraph& graph) {
  if (graph.deterministic) return "cuDNN's sums do not repeat their bits, as run.deterministic asks";
  if (graph.x[1] <= kFewChannels) return "cuDNN is slow to sum up convolutions of so few channels";
  if (!is_low(graph.dtype)) return "sums of squares are too inexact for the moments of f32";
  if (graph.bias || graph.relu) return "cuDNN's sums are of the convolution's result before bias and relu";
  const auto first = gpu.cudnn->usable(graph, 1);
  if (!first.empty() && !first[0].fallback) return std::nullopt;
  return fmt::format("{} has {} for {}", gpu.cudnn->title(), first.empty() ? "no engine" : "only a fallback",
                     graph.text());
}

/// Engines round gradients of weights to the type of their images, or are fallbacks. As with moments, the
/// program does not depend on timings.
std::optional<std::string> why_not_low_gradient(const Gpu& gpu, const ConvolutionGraph& graph) {
  const auto first = gpu.cudnn->usable(graph, 1);
  if (!first.empty() && !first[0].fallback) return std::nullopt;
  return fmt::format("{} has only a fallback for {}", gpu.cudnn->title(), graph.text());
}

std::optional<std::string> why_not_convolution(const Gpu& gpu, const OpContext& context) {
  const DType dtype = context.inputs[kFirstFactor].dtype;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    return fmt::format("cuDNN convolves f32, f16 and bf16, not {}", to_string(dtype));
  if (!context.has_output(kConvolved)) return std::nullopt;
  if (dynamic_cast<const Conv2d*>(&context.op) != nullptr && context.has_input(Conv2d::kResidual))
    return "no convolution of the GPU adds a residual";
  const auto* gradient = dynamic_cast<const Conv2dBackwardWeights*>(&context.op);
  const DType expected = gradient != nullptr ? gradient->dtype : dtype;
  if (context.inputs[kSecondFactor].dtype != dtype || context.outputs[kConvolved].dtype != expected) {
    return fmt::format("cuDNN needs one type for all tensors, got {}, {} and {}", to_string(dtype),
                       to_string(context.inputs[kSecondFactor].dtype),
                       to_string(context.outputs[kConvolved].dtype));
  }
  const ConvolutionGraph whole = convolution_graph(gpu, context);
  if (whole.moments) {
    if (auto reason = why_not_moments(gpu, whole)) return reason;
  }
  if (gradient != nullptr && is_low(gradient->dtype)) {
    if (auto reason = why_not_low_gradient(gpu, whole)) return reason;
  }
  if (choose_convolution(gpu, context)) return std::nullopt;
  const ConvolutionGraph graph = convolution_alone(whole);
  const std::string& reason = gpu.cudnn->ask(graph).refusal;
  return fmt::format("{} has no engine for {}{}", gpu.cudnn->title(), graph.text(),
                     reason.empty() ? "" : ": " + reason);
}

std::optional<int64_t> untimed_workspace(const Gpu& gpu, const OpContext& context) {
  const auto first = gpu.cudnn->usable(convolution_alone(convolution_graph(gpu, context)), 1);
  return first.empty() ? std::nullopt : std::optional(first[0].workspace_bytes);
}

using Tensors = std::vector<BoundTensor>;

/// A gradient that is converted afterwards is in the workspace, and so are sums that are not needed.
Tensors tensors_of(const ConvolutionChoice& chosen, const Slots& slots) {
  switch (chosen.graph.kind) {
    case Kind::forward:
      break;
    case Kind::backward_data:
      return {{cudnn::kY, slots.inputs[Conv2dBackwardData::kDy]},
              {cudnn::kW, slots.inputs[Conv2dBackwardData::kWeight]},
              {cudnn::kX, slots.outputs[Conv2dBackwardData::kDx]}};
    case Kind::backward_weights:
      return {
          {cudnn::kX, slots.inputs[Conv2dBackwardWeights::kX]},
          {cudnn::kY, slots.inputs[Conv2dBackwardWeights::kDy]},
          {cudnn::kW, chosen.is_split() ? slots.workspace : slots.outputs[Conv2dBackwardWeights::kDweight]}};
  }
  Tensors tensors{{cudnn::kX, slots.inputs[Conv2d::kX]},
                  {cudnn::kW, slots.inputs[Conv2d::kWeight]},
                  {cudnn::kY, slots.outputs[Conv2d::kY]}};
  if (chosen.graph.bias) tensors.push_back({cudnn::kBias, slots.inputs[Conv2d::kBias]});
  if (chosen.graph.moments) {
    const auto bind = [&](int64_t uid, void* const* output, int64_t otherwise) {
      tensors.push_back(output != nullptr ? BoundTensor{uid, output}
                                          : BoundTensor{uid, slots.workspace, otherwise});
    };
    bind(cudnn::kSums, slots.outputs[Conv2d::kSums], 0);
    bind(cudnn::kSquares, slots.outputs[Conv2d::kSquares], squares_offset(chosen.graph));
  }
  return tensors;
}

using Step = std::function<cudaError_t()>;

/// The part of the convolution done by one of our kernels, if any.
Step rest_of(const ConvolutionChoice& chosen, const Slots& slots, cudaStream_t stream) {
  if (!chosen.is_split() || chosen.whole.moments) return [] { return cudaSuccess; };
  void* const* from = chosen.whole.converts() ? slots.workspace : slots.inputs[Conv2d::kBias];
  return [whole = chosen.whole, from, to = slots.outputs[kConvolved], stream] {
    return launch_rest(whole, optional_at<const void>(from), *to, stream);
  };
}

/// The sums of y after a convolution alone. If one is recomputed they are not needed, but it has the
/// same engine.
Step sums_of(const Gpu& gpu, const OpContext& context, const ConvolutionChoice& chosen, const Slots& slots) {
  const bool wanted = context.has_output(Conv2d::kSums) || context.has_output(Conv2d::kSquares);
  if (!chosen.whole.moments || !chosen.is_split() || !wanted) return [] { return cudaSuccess; };
  return [=, counters = gpu.counters.get(), stream = gpu.stream.get()] {
    return launch_sums(chosen, *slots.outputs[Conv2d::kY], optional_at<float>(slots.outputs[Conv2d::kSums]),
                       optional_at<float>(slots.outputs[Conv2d::kSquares]), {*slots.workspace, counters},
                       stream);
  };
}

/// The gradient of the bias, if it is needed. It reuses the workspace of the previous work.
Step bias_gradient(const OpContext& context, const Slots& slots, cudaStream_t stream) {
  if (!wants_bias_gradient(context)) return [] { return cudaSuccess; };
  return [=, dy = as_matrix(context.inputs[Conv2dBackwardWeights::kDy]),
          dtype = context.outputs[Conv2dBackwardWeights::kDbias].dtype] {
    return launch_column_sums(dy, *slots.inputs[Conv2dBackwardWeights::kDy],
                              *slots.outputs[Conv2dBackwardWeights::kDbias], dtype, *slots.workspace, stream);
  };
}

std::unique_ptr<Kernel> compile(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                const Slots& slots) {
  cudaStream_t stream = gpu.stream.get();
  Step sums = bias_gradient(context, slots, stream);
  if (choice.implementation == kColumnSums) return kernel(context, sums);
  const ConvolutionGraph whole = convolution_graph(gpu, context);
  const ConvolutionChoice chosen{whole,
                                 is_split(choice) ? convolution_alone(whole) : whole,
                                 {.text = choice.algorithm, .workspace_bytes = choice.workspace_bytes}};
  if (!chosen.is_product()) gpu.cudnn->share(chosen.graph, chosen.engine.text);
  const std::function<void()> part = library_part(gpu, chosen, tensors_of(chosen, slots), slots.workspace);
  const Step clear = [chosen, slots, stream] { return clear_sums(chosen, slots, stream); };
  const std::array<Step, 3> after{rest_of(chosen, slots, stream), sums_of(gpu, context, chosen, slots),
                                  std::move(sums)};
  return kernel(context, [=] {
    cudaError_t status = clear();
    if (status != cudaSuccess) return status;
    part();
    for (const Step& step : after) {
      if (status == cudaSuccess) status = step();
    }
    return status;
  });
}

}  // namespace

void add_convolution(Handlers& handlers) {
  const Handler handler{.select = select,
                        .compile = compile,
                        .why_not = why_not_convolution,
                        .untimed_workspace = untimed_workspace};
  handlers[typeid(Conv2d)] = handlers[typeid(Conv2dBackwardData)] = handlers[typeid(Conv2dBackwardWeights)] =
      handler;
}

}  // namespace trainer::cuda
