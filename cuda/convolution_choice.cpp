// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "core/engine/arena.h"
#include "core/graph/ops/conv2d.h"
#include "cuda/convolution.h"
#include "cuda/convolution_product.h"
#include "cuda/known_fastest.h"
#include "cuda/movement.h"
#include "cuda/trial.h"

namespace trainer::cuda {
namespace {

using cudnn::ConvolutionGraph;
using cudnn::EngineChoice;
using Kind = ConvolutionGraph::Kind;

/// Number of engines that runtime.autotune times of each of the two graphs.
constexpr size_t kTimed = 8;
/// Of those that convert a gradient themselves: each is compiled first, which takes a second.
constexpr size_t kTimedConverting = 2;

std::array<int64_t, 4> sizes(const Shape& shape) {
  return {shape[0], shape[1], shape[2], shape[3]};
}

/// A batch may begin at any image of a larger one if nothing reorders it first.
int64_t alignment(const Shape& images, DType dtype) {
  constexpr int64_t kMost = 16;
  if (!channels_last(images).row_major()) return kMost;
  const int64_t image_bytes = numel(images) / images[0] * bytes_per_element(dtype);
  return std::min(kMost, image_bytes & -image_bytes);
}

int64_t elements(const std::array<int64_t, 4>& shape) {
  return shape[0] * shape[1] * shape[2] * shape[3];
}

int64_t bytes_of(const std::array<int64_t, 4>& shape, DType dtype) {
  return elements(shape) * bytes_per_element(dtype);
}

bool differ(const ConvolutionGraph& part, const ConvolutionGraph& whole) {
  return part.bias != whole.bias || part.relu != whole.relu || part.moments != whole.moments ||
         part.dw_dtype != whole.dw_dtype;
}

/// The candidates of cuDNN, best first: engines for the whole, and engines for the convolution alone,
/// followed by one of our kernels. Bias, relu and moments are better in cuDNN's kernel. Conversions of
/// gradients are not: no engine that NVIDIA ships compiled does them. If the heuristics have only fallbacks
/// for the better
/// of the two, these come last: they are slow.
std::vector<ConvolutionChoice> candidates(const Gpu& gpu, const ConvolutionGraph& whole, size_t most) {
  const ConvolutionGraph alone = convolution_alone(whole);
  const bool converts = whole.converts();
  const ConvolutionGraph &first = converts ? alone : whole, &second = converts ? whole : alone;
  std::vector<ConvolutionChoice> found, fallbacks;
  for (EngineChoice& engine : gpu.cudnn->usable(first, most))
    (engine.fallback ? fallbacks : found).push_back({whole, first, std::move(engine)});
  if (differ(alone, whole) && (most > 1 || found.empty())) {
    for (EngineChoice& engine : gpu.cudnn->usable(second, converts ? std::min(most, kTimedConverting) : most))
      found.push_back({whole, second, std::move(engine)});
  }
  std::move(fallbacks.begin(), fallbacks.end(), std::back_inserter(found));
  return found;
}

/// The fastest, by a run of each on the same input. One whose result differs from the first one's is passed
/// over.
const ConvolutionChoice& fastest(const Gpu& gpu, const std::vector<ConvolutionChoice>& all) {
  const ConvolutionGraph& whole = all[0].whole;
  int64_t most = 0;
  for (const ConvolutionChoice& one : all) most = std::max(most, one.workspace_bytes());
  cudaStream_t stream = gpu.stream.get();
  const DeviceMemory x = filled_memory(elements(whole.x), whole.dtype, stream),
                     w = filled_memory(elements(whole.w), whole.dtype, stream),
                     y = filled_memory(elements(whole.y), whole.dtype, stream),
                     converted = scratch_memory(bytes_of(whole.w, DType::f32)),
                     bias = filled_memory(whole.y[1], whole.bias_dtype, stream),
                     sums = scratch_memory(2 * squares_offset(whole)), workspace = scratch_memory(most);
  const auto result = [&] {
    switch (whole.kind) {
      case Kind::forward:
        return ends_of(y.get(), elements(whole.y), whole.dtype, stream);
      case Kind::backward_data:
        return ends_of(x.get(), elements(whole.x), whole.dtype, stream);
      case Kind::backward_weights:
        break;
    }
    return ends_of((whole.converts() ? converted : w).get(), elements(whole.w), whole.dw_dtype, stream);
  };
  std::vector<float> expected;
  void *const at_x = x.get(), *const at_w = w.get(), *const at_y = y.get(), *const at_bias = bias.get(),
              *const at_converted = converted.get(), *const own = workspace.get();
  const auto time = [&](size_t i) {
    const ConvolutionChoice& one = all[i];
    std::vector<BoundTensor> tensors{
        {cudnn::kX, &at_x}, {cudnn::kW, one.graph.converts() ? &at_converted : &at_w}, {cudnn::kY, &at_y}};
    if (one.graph.bias) tensors.push_back({cudnn::kBias, &at_bias});
    if (one.graph.moments) {
      tensors.push_back({cudnn::kSums, &own});
      tensors.push_back({cudnn::kSquares, &own, squares_offset(whole)});
    }
    const std::function<void()> part = library_part(gpu, one, std::move(tensors), &own);
    const float spent = milliseconds(stream, [&] {
      part();
      if (!one.is_split()) return;
      if (whole.moments) {
        auto* of_y = static_cast<float*>(sums.get());
        check(launch_sums(one, y.get(), of_y, of_y + whole.y[1], {own, gpu.counters.get()}, stream),
              "timing");
        return;
      }
      const void* from = whole.converts() ? w.get() : whole.bias ? bias.get() : nullptr;
      check(launch_rest(whole, from, whole.converts() ? converted.get() : y.get(), stream), "timing");
    });
    const std::vector<float> found = result();
    if (expected.empty() && agree(found, found)) expected = found;  // a NaN agrees with nothing
    if (expected.empty() || !agree(found, expected)) {
      const std::string what = fmt::format("{} for {}", one.text(), whole.text());
      gpu.tuning->wrong.push_back(what);
      throw Error(ExitCode::internal, what + " computes something else");
    }
    return spent;
  };
  return all[fastest_of(all.size(), time)];
}

/// The choice that a tuning names, if the libraries still have it. "cublaslt" alone is its first algorithm,
/// whichever that is here: tests use it to run products even if they are not the fastest.
std::optional<ConvolutionChoice> remembered(const Gpu& gpu, const ConvolutionGraph& whole,
                                            const std::string& known) {
  if (known.find("cublaslt") != std::string::npos) {
    for (const ConvolutionChoice& one : product_choices(gpu, whole)) {
      if (one.text() == known || known == "cublaslt") return one;
    }
    return std::nullopt;
  }
  for (const ConvolutionGraph& graph : {whole, convolution_alone(whole)}) {
    for (const EngineChoice& engine : gpu.cudnn->ask(graph).choices) {
      ConvolutionChoice one{whole, graph, engine};
      if (one.text() != known) continue;
      try {
        one.engine.workspace_bytes = gpu.cudnn->plan(graph, engine.text)->workspace_bytes();
        return one;
      } catch (const Error&) {  // it is timed again
        return std::nullopt;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

bool ConvolutionChoice::is_split() const {
  return differ(graph, whole);
}

int64_t ConvolutionChoice::own_bytes() const {
  if (graph.moments) return 2 * squares_offset(graph);
  if (graph.converts() == whole.converts()) return 0;
  return align_up(bytes_of(graph.w, graph.dtype), kWorkspaceAlignment);
}

std::optional<ConvolutionChoice> choose_convolution(const Gpu& gpu, const OpContext& context) {
  const ConvolutionGraph whole = convolution_graph(gpu, context);
  if (!gpu.times_all() || !gpu.cudnn->on_device()) {
    const std::vector<ConvolutionChoice> first = candidates(gpu, whole, 1);
    return first.empty() ? std::nullopt : std::optional(first[0]);
  }
  const std::string product = is_product(whole) ? fmt::format(", cuBLASLt {}", cublasLtGetVersion()) : "";
  const std::string key = gpu.cudnn->title() + product + ": " + whole.text();
  if (const auto known = known_fastest(gpu, key)) {
    if (auto found = remembered(gpu, whole, *known)) {
      keep_fastest(gpu, key, *known);
      return found;
    }
  }
  std::vector<ConvolutionChoice> all = candidates(gpu, whole, kTimed);
  if (all.empty()) return std::nullopt;
  std::ranges::copy(product_choices(gpu, whole), std::back_inserter(all));
  const ConvolutionChoice& best = fastest(gpu, all);
  for (const ConvolutionChoice& one : all) {
    if (&one != &best && !one.is_product()) gpu.cudnn->forget(one.graph, one.engine.text);
  }
  share_fastest(gpu, key, best.text());
  return best;
}

ConvolutionGraph convolution_alone(ConvolutionGraph graph) {
  graph.bias = graph.relu = graph.moments = false;
  graph.bias_dtype = DType::f32;
  if (graph.converts()) graph.dw_dtype = graph.dtype;
  return graph;
}

cudaError_t launch_rest(const ConvolutionGraph& whole, const void* from, void* to, cudaStream_t stream) {
  if (whole.converts()) return launch_cast(whole.dtype, whole.dw_dtype, from, to, elements(whole.w), stream);
  const Matrix y{.rows = elements(whole.y) / whole.y[1], .columns = whole.y[1], .dtype = whole.dtype};
  return launch_add_bias(y, to, from, whole.bias_dtype, whole.relu, stream);
}

ConvolutionGraph convolution_graph(const Gpu& gpu, const OpContext& context) {
  ConvolutionGraph graph;
  const Conv2dGeometry* geometry = nullptr;
  Shape x, w, y;
  if (const auto* forward = dynamic_cast<const Conv2d*>(&context.op)) {
    geometry = &forward->geometry;
    graph.relu = forward->relu;
    graph.moments = forward->moments;
    graph.bias = context.has_input(Conv2d::kBias);
    if (graph.bias) graph.bias_dtype = context.inputs[Conv2d::kBias].dtype;
    x = context.inputs[Conv2d::kX].shape;
    w = context.inputs[Conv2d::kWeight].shape;
    y = context.outputs[Conv2d::kY].shape;
  } else if (const auto* data = dynamic_cast<const Conv2dBackwardData*>(&context.op)) {
    graph.kind = Kind::backward_data;
    geometry = &data->geometry;
    x = context.outputs[Conv2dBackwardData::kDx].shape;
    w = context.inputs[Conv2dBackwardData::kWeight].shape;
    y = context.inputs[Conv2dBackwardData::kDy].shape;
  } else {
    graph.kind = Kind::backward_weights;
    const auto& weights = dynamic_cast<const Conv2dBackwardWeights&>(context.op);
    geometry = &weights.geometry;
    graph.dw_dtype = context.outputs[Conv2dBackwardWeights::kDweight].dtype;
    x = context.inputs[Conv2dBackwardWeights::kX].shape;
    w = weights.w_shape;
    y = context.inputs[Conv2dBackwardWeights::kDy].shape;
  }
  graph.dtype = context.inputs[0].dtype;  // that of both factors
  graph.x = sizes(x);
  graph.w = sizes(w);
  graph.y = sizes(y);
  graph.padding = geometry->padding;
  graph.stride = geometry->stride;
  graph.dilation = geometry->dilation;
  if (graph.kind != Kind::backward_data) graph.x_alignment = alignment(x, graph.dtype);
  graph.tf32 = gpu.tf32 && graph.dtype == DType::f32;
  graph.deterministic = gpu.deterministic;
  return graph;
}

}  // namespace trainer::cuda
