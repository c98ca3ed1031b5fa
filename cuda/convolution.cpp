// SPDX-License-Identifier: Apache-2.0
#include "cuda/convolution.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/engine/tuning.h"
#include "core/graph/ops/conv2d.h"
#include "cuda/bias.h"
#include "cuda/cudnn/library.h"
#include "cuda/timing.h"

namespace trainer::cuda {
namespace {

using cudnn::ConvolutionGraph;
using cudnn::EngineChoice;
using Kind = ConvolutionGraph::Kind;

constexpr const char* kFused = "cudnn";
constexpr const char* kThenBias = "cudnn, add_bias";
constexpr const char* kAndColumnSums = "cudnn, column_sums";
constexpr const char* kColumnSums = "column_sums";
/// How many engines runtime.autotune times.
constexpr size_t kTimed = 8;

std::array<int64_t, 4> extents(const Shape& shape) {
  return {shape[0], shape[1], shape[2], shape[3]};
}

/// A batch may begin at any image of a larger one where nothing reorders it first.
int64_t alignment(const Shape& images, DType dtype) {
  constexpr int64_t kMost = 16;
  if (!channels_last(images).row_major()) return kMost;
  const int64_t image_bytes = numel(images) / images[0] * bytes_per_element(dtype);
  return std::min(kMost, image_bytes & -image_bytes);
}

Matrix as_matrix(const TensorSpec& images) {
  const int64_t channels = images.shape[1];
  return {.rows = numel(images.shape) / channels, .columns = channels, .dtype = images.dtype};
}

/// The graph with what the run wants of its numbers.
ConvolutionGraph graph_for(const Device& device, const OpContext& context) {
  ConvolutionGraph graph = convolution_graph(context);
  graph.tf32 = device.tf32 && graph.dtype == DType::f32;
  graph.deterministic = device.deterministic;
  return graph;
}

ConvolutionGraph without_bias(ConvolutionGraph graph) {
  graph.bias = graph.relu = false;
  graph.bias_dtype = DType::f32;
  return graph;
}

int64_t bytes_of(const std::array<int64_t, 4>& shape, DType dtype) {
  return shape[0] * shape[1] * shape[2] * shape[3] * bytes_per_element(dtype);
}

/// The fastest of several engines, by a run of each on memory of its own.
EngineChoice fastest(const Device& device, const ConvolutionGraph& graph,
                     const std::vector<EngineChoice>& choices) {
  int64_t most = 0;
  for (const EngineChoice& choice : choices) most = std::max(most, choice.workspace_bytes);
  const DeviceMemory x = scratch_memory(bytes_of(graph.x, graph.dtype)),
                     w = scratch_memory(bytes_of(graph.w, graph.dtype)),
                     y = scratch_memory(bytes_of(graph.y, graph.dtype)),
                     bias = scratch_memory(graph.y[1] * bytes_per_element(graph.bias_dtype)),
                     workspace = scratch_memory(most);
  std::vector<std::pair<int64_t, void*>> tensors{
      {cudnn::kX, x.get()}, {cudnn::kW, w.get()}, {cudnn::kY, y.get()}};
  if (graph.bias) tensors.emplace_back(cudnn::kBias, bias.get());
  const cudnn::Descriptor addresses = cudnn::addresses(tensors, workspace.get());
  const EngineChoice* best = nullptr;
  float least = 0;
  for (const EngineChoice& choice : choices) {
    const auto plan = device.cudnn->plan(graph, choice.text);
    const float time = milliseconds(device.stream.get(), [&] { plan->run(addresses); });
    if (best == nullptr || time < least) least = time, best = &choice;
  }
  return *best;
}

/// The heuristics' first that runs, or the one that a measurement of now or earlier says is the fastest.
std::optional<EngineChoice> choose(const Device& device, const ConvolutionGraph& graph) {
  if (device.tuning == nullptr || !device.cudnn->on_device()) {
    const auto first = device.cudnn->usable(graph, 1);
    return first.empty() ? std::nullopt : std::optional(first[0]);
  }
  const auto choices = device.cudnn->usable(graph, kTimed);
  if (choices.empty()) return std::nullopt;
  std::string& known = device.tuning->fastest[device.cudnn->title() + ": " + graph.text()];
  const auto found = std::find_if(choices.begin(), choices.end(),
                                  [&](const EngineChoice& choice) { return choice.text == known; });
  if (found != choices.end()) return *found;
  EngineChoice best = fastest(device, graph, choices);
  for (const EngineChoice& choice : choices) {
    if (choice.text != best.text) device.cudnn->forget(graph, choice.text);
  }
  known = best.text;
  return best;
}

/// How a convolution runs: what of it cuDNN does, and on which engine.
struct Selected {
  ConvolutionGraph graph;
  EngineChoice engine;
};

/// One engine for convolution, bias and relu where the heuristics know one. Their fallbacks for the three
/// together are slow: then a good engine for the convolution alone, and an own kernel after it.
std::optional<Selected> choose_parts(const Device& device, const OpContext& context) {
  const ConvolutionGraph whole = graph_for(device, context);
  const auto fused = choose(device, whole);
  const ConvolutionGraph plain = without_bias(whole);
  if (fused && (!fused->fallback || plain.text() == whole.text())) return Selected{whole, *fused};
  if (const auto alone = choose(device, plain)) return Selected{plain, *alone};
  return std::nullopt;
}

bool wants(const OpContext& context, size_t output) {
  return context.outputs.size() > output && !context.outputs[output].shape.empty();
}

Choice select(const Device& device, const OpContext& context, const OpenLayouts&) {
  Choice choice = all_channels_last(context, kColumnSums);
  if (wants(context, 0)) {
    const auto [graph, engine] = *choose_parts(device, context);
    const ConvolutionGraph whole = convolution_graph(context);
    const bool whole_fused = graph.bias == whole.bias && graph.relu == whole.relu;
    choice.implementation = wants(context, 1) ? kAndColumnSums : whole_fused ? kFused : kThenBias;
    choice.algorithm = engine.text;
    choice.workspace_bytes = engine.workspace_bytes;
  }
  if (wants(context, 1)) {
    choice.workspace_bytes =
        std::max(choice.workspace_bytes, column_sums_workspace(as_matrix(context.inputs[1])));
  }
  return choice;
}

std::optional<std::string> why_not(const Device& device, const OpContext& context) {
  const DType dtype = context.inputs[0].dtype;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    return fmt::format("cuDNN convolves f32, f16 and bf16, not {}", to_string(dtype));
  if (!wants(context, 0)) return std::nullopt;
  if (context.inputs[1].dtype != dtype || context.outputs[0].dtype != dtype) {
    return fmt::format("cuDNN wants one type in all of it, not {}, {} and {}", to_string(dtype),
                       to_string(context.inputs[1].dtype), to_string(context.outputs[0].dtype));
  }
  if (choose_parts(device, context)) return std::nullopt;
  const ConvolutionGraph graph = without_bias(graph_for(device, context));
  const std::string& reason = device.cudnn->ask(graph).refusal;
  return fmt::format("{} has no engine for {}{}", device.cudnn->title(), graph.text(),
                     reason.empty() ? "" : ": " + reason);
}

using Tensors = std::vector<std::pair<int64_t, void* const*>>;

/// Runs a plan of cuDNN; addresses are bound anew only where they have changed.
class BoundPlan {
 public:
  BoundPlan(std::shared_ptr<const cudnn::Plan> plan, Tensors tensors, void* const* workspace)
      : plan_(std::move(plan)), tensors_(std::move(tensors)), workspace_(workspace) {}

  void run() {
    std::vector<std::pair<int64_t, void*>> now;
    now.reserve(tensors_.size());
    for (const auto& [uid, slot] : tensors_) now.emplace_back(uid, *slot);
    if (!addresses_ || now != bound_) {
      addresses_ = cudnn::addresses(now, optional_at<void>(workspace_));
      bound_ = std::move(now);
    }
    plan_->run(*addresses_);
  }

 private:
  std::shared_ptr<const cudnn::Plan> plan_;
  Tensors tensors_;
  void* const* workspace_;
  std::optional<cudnn::Descriptor> addresses_;
  std::vector<std::pair<int64_t, void*>> bound_;
};

Tensors tensors_of(const ConvolutionGraph& graph, const Slots& slots) {
  switch (graph.kind) {
    case Kind::forward:
      break;
    case Kind::backward_data:
      return {{cudnn::kY, slots.inputs[0]}, {cudnn::kW, slots.inputs[1]}, {cudnn::kX, slots.outputs[0]}};
    case Kind::backward_weights:
      return {{cudnn::kX, slots.inputs[0]}, {cudnn::kY, slots.inputs[1]}, {cudnn::kW, slots.outputs[0]}};
  }
  Tensors tensors{{cudnn::kX, slots.inputs[0]}, {cudnn::kW, slots.inputs[1]}, {cudnn::kY, slots.outputs[0]}};
  if (graph.bias) tensors.emplace_back(cudnn::kBias, slots.inputs[2]);
  return tensors;
}

/// What an own kernel does after cuDNN's: nothing, bias and relu, or the gradient of the bias.
std::function<cudaError_t()> own_part(const Device& device, const OpContext& context, const Choice& choice,
                                      const Slots& slots) {
  cudaStream_t stream = device.stream.get();
  if (choice.implementation == kThenBias) {
    const ConvolutionGraph whole = convolution_graph(context);
    return [=, y = as_matrix(context.outputs[0]), relu = whole.relu, dtype = whole.bias_dtype] {
      return launch_add_bias(y, *slots.outputs[0], optional_at<const void>(slots.inputs[2]), dtype, relu,
                             stream);
    };
  }
  if (!wants(context, 1)) return [] { return cudaSuccess; };
  return [=, dy = as_matrix(context.inputs[1]), dtype = context.outputs[1].dtype] {
    return launch_column_sums(dy, *slots.inputs[1], *slots.outputs[1], dtype, *slots.workspace, stream);
  };
}

std::unique_ptr<Kernel> compile(const Device& device, const OpContext& context, const Choice& choice,
                                const Slots& slots) {
  auto after = own_part(device, context, choice, slots);
  if (choice.implementation == kColumnSums) return kernel(context, after);
  ConvolutionGraph graph = graph_for(device, context);
  if (choice.implementation == kThenBias) graph = without_bias(graph);
  BoundPlan plan(device.cudnn->plan(graph, choice.algorithm), tensors_of(graph, slots), slots.workspace);
  return kernel(context, [plan = std::move(plan), after = std::move(after)]() mutable {
    plan.run();
    return after();
  });
}

}  // namespace

ConvolutionGraph convolution_graph(const OpContext& context) {
  ConvolutionGraph graph;
  const Conv2dGeometry* geometry = nullptr;
  Shape x = context.inputs[0].shape, w = context.inputs[1].shape, y = context.outputs[0].shape;
  if (const auto* forward = dynamic_cast<const Conv2d*>(&context.op)) {
    geometry = &forward->geometry;
    graph.relu = forward->relu;
    graph.bias = !context.inputs[2].shape.empty();
    if (graph.bias) graph.bias_dtype = context.inputs[2].dtype;
  } else if (const auto* data = dynamic_cast<const Conv2dBackwardData*>(&context.op)) {
    graph.kind = Kind::backward_data;
    geometry = &data->geometry;
    std::swap(x, y);
  } else {
    graph.kind = Kind::backward_weights;
    const auto& weights = dynamic_cast<const Conv2dBackwardWeights&>(context.op);
    geometry = &weights.geometry;
    y = std::exchange(w, weights.w_shape);
  }
  graph.dtype = context.inputs[0].dtype;
  graph.x = extents(x);
  graph.w = extents(w);
  graph.y = extents(y);
  graph.padding = geometry->padding;
  graph.stride = geometry->stride;
  graph.dilation = geometry->dilation;
  if (graph.kind != Kind::backward_data) graph.x_alignment = alignment(x, graph.dtype);
  return graph;
}

void add_convolution(Handlers& handlers, const Device& device) {
  const Handler handler{.select = select, .compile = compile, .why_not = [&device](const OpContext& context) {
                          return why_not(device, context);
                        }};
  handlers[typeid(Conv2d)] = handlers[typeid(Conv2dBackwardData)] = handlers[typeid(Conv2dBackwardWeights)] =
      handler;
}

}  // namespace trainer::cuda
