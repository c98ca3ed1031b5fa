// SPDX-License-Identifier: Apache-2.0
#include "cuda/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
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
/// How many engines runtime.autotune times, of the fused convolution and of that alone.
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

/// How a convolution runs: what of it cuDNN does, and on which engine. The rest is an own kernel's.
struct Selected {
  ConvolutionGraph graph;
  EngineChoice engine;
  /// As it is kept in a tuning.
  std::string text() const { return graph.text() + " by " + engine.text; }
};

bool is_split(const ConvolutionGraph& part, const ConvolutionGraph& whole) {
  return part.bias != whole.bias || part.relu != whole.relu;
}

/// What to choose from, best first: engines for convolution, bias and relu together, then engines for the
/// convolution alone, which an own kernel follows. Where the heuristics know only fallbacks for the three
/// together, these come last: they are slow.
std::vector<Selected> candidates(const Device& device, const ConvolutionGraph& whole, size_t most) {
  std::vector<Selected> found, fallbacks;
  for (EngineChoice& engine : device.cudnn->usable(whole, most))
    (engine.fallback ? fallbacks : found).push_back({whole, std::move(engine)});
  const ConvolutionGraph plain = without_bias(whole);
  if (is_split(plain, whole) && (most > 1 || found.empty())) {
    for (EngineChoice& engine : device.cudnn->usable(plain, most))
      found.push_back({plain, std::move(engine)});
  }
  std::move(fallbacks.begin(), fallbacks.end(), std::back_inserter(found));
  return found;
}

/// The fastest, by a run of each on memory of its own.
const Selected& fastest(const Device& device, const ConvolutionGraph& whole, const Matrix& y_rows,
                        const std::vector<Selected>& all) {
  int64_t most = 0;
  for (const Selected& one : all) most = std::max(most, one.engine.workspace_bytes);
  const DeviceMemory x = scratch_memory(bytes_of(whole.x, whole.dtype)),
                     w = scratch_memory(bytes_of(whole.w, whole.dtype)),
                     y = scratch_memory(bytes_of(whole.y, whole.dtype)),
                     bias = scratch_memory(whole.y[1] * bytes_per_element(whole.bias_dtype)),
                     workspace = scratch_memory(most);
  cudaStream_t stream = device.stream.get();
  std::vector<float> times;
  for (const Selected& one : all) {
    std::vector<std::pair<int64_t, void*>> tensors{
        {cudnn::kX, x.get()}, {cudnn::kW, w.get()}, {cudnn::kY, y.get()}};
    if (one.graph.bias) tensors.emplace_back(cudnn::kBias, bias.get());
    const cudnn::Descriptor addresses = cudnn::addresses(tensors, workspace.get());
    const auto plan = device.cudnn->plan(one.graph, one.engine.text);
    times.push_back(milliseconds(stream, [&] {
      plan->run(addresses);
      if (!is_split(one.graph, whole)) return;
      check(launch_add_bias(y_rows, y.get(), whole.bias ? bias.get() : nullptr, whole.bias_dtype, whole.relu,
                            stream),
            "timing");
    }));
  }
  const auto least = std::min_element(times.begin(), times.end()) - times.begin();
  return all[static_cast<size_t>(least)];
}

/// What a tuning names, where the library still has it.
std::optional<Selected> remembered(const Device& device, const ConvolutionGraph& whole,
                                   const std::string& known) {
  for (const ConvolutionGraph& graph : {whole, without_bias(whole)}) {
    for (const EngineChoice& engine : device.cudnn->ask(graph).choices) {
      Selected one{graph, engine};
      if (one.text() != known) continue;
      try {
        one.engine.workspace_bytes = device.cudnn->plan(graph, engine.text)->workspace_bytes();
        return one;
      } catch (const Error&) {  // it is timed anew
        return std::nullopt;
      }
    }
  }
  return std::nullopt;
}

/// The heuristics' first that runs, or the one that a measurement of now or earlier says is the fastest.
std::optional<Selected> choose(const Device& device, const OpContext& context) {
  const ConvolutionGraph whole = graph_for(device, context);
  if (device.tuning == nullptr || !device.cudnn->on_device()) {
    const std::vector<Selected> first = candidates(device, whole, 1);
    return first.empty() ? std::nullopt : std::optional(first[0]);
  }
  const std::string key = device.cudnn->title() + ": " + whole.text();
  const auto known = device.tuning->fastest.find(key);
  if (known != device.tuning->fastest.end()) {
    if (auto found = remembered(device, whole, known->second)) return found;
  }
  const std::vector<Selected> all = candidates(device, whole, kTimed);
  if (all.empty()) return std::nullopt;
  const Selected& best = fastest(device, whole, as_matrix(context.outputs[0]), all);
  for (const Selected& one : all) {
    if (&one != &best) device.cudnn->forget(one.graph, one.engine.text);
  }
  device.tuning->fastest[key] = best.text();
  return best;
}

bool wants(const OpContext& context, size_t output) {
  return context.outputs.size() > output && !context.outputs[output].shape.empty();
}

Choice select(const Device& device, const OpContext& context, const OpenLayouts&) {
  Choice choice = all_channels_last(context, kColumnSums);
  if (wants(context, 0)) {
    const auto [graph, engine] = *choose(device, context);
    const bool split = is_split(graph, convolution_graph(context));
    choice.implementation = wants(context, 1) ? kAndColumnSums : split ? kThenBias : kFused;
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
  if (choose(device, context)) return std::nullopt;
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
