// SPDX-License-Identifier: Apache-2.0
#include "cuda/convolution_product.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "core/engine/arena.h"
#include "cuda/matmul.h"

namespace trainer::cuda {
namespace {

using cudnn::ConvolutionGraph;
using Kind = ConvolutionGraph::Kind;

constexpr std::string_view kPrefix = "cublaslt ";

/// In cuBLASLt's column-major order, with the tensors for a, b and d.
struct Roles {
  MatrixProduct product;
  std::array<int64_t, 3> tensors;
};

/// yT = w xT, dxT = wT dyT, dwT = xT dy.
Roles roles_of(const ConvolutionGraph& graph) {
  const int64_t channels = graph.x[1], outputs = graph.w[0], pixels = graph.x[0] * graph.x[2] * graph.x[3];
  const auto matrix = [&](int64_t rows, int64_t columns, int64_t alignment = kArenaAlignment) {
    return MatrixProduct::Operand{.rows = rows,
                                  .columns = columns,
                                  .dtype = graph.dtype,
                                  .alignment = static_cast<uint32_t>(alignment)};
  };
  const auto transposed = [](MatrixProduct::Operand operand) {
    operand.transposed = true;
    return operand;
  };
  MatrixProduct product;
  product.tf32 = graph.tf32;
  const MatrixProduct::Operand w = matrix(channels, outputs), y = matrix(outputs, pixels),
                               x = matrix(channels, pixels, graph.x_alignment);
  switch (graph.kind) {
    case Kind::forward:
      product.a = transposed(w), product.b = x, product.d = y;
      return {product, {cudnn::kW, cudnn::kX, cudnn::kY}};
    case Kind::backward_data:
      product.a = w, product.b = y, product.d = matrix(channels, pixels);
      return {product, {cudnn::kW, cudnn::kY, cudnn::kX}};
    case Kind::backward_weights:
      break;
  }
  product.a = x, product.b = transposed(y), product.d = w;
  product.d.dtype = graph.dw_dtype;
  return {product, {cudnn::kX, cudnn::kY, cudnn::kW}};
}

std::function<void()> product_part(const Gpu& gpu, const ConvolutionChoice& chosen,
                                   const std::vector<BoundTensor>& tensors, void* const* workspace) {
  const Roles roles = roles_of(chosen.graph);
  std::array<void* const*, 3> slots{};
  std::ranges::transform(roles.tensors, slots.begin(), [&](int64_t uid) {
    return std::ranges::find(tensors, uid, &BoundTensor::uid)->slot;
  });
  const auto matmul = std::make_shared<Matmul>(
      gpu.blas.get(), roles.product,
      MatmulAlgorithm{chosen.engine.text.substr(kPrefix.size()), chosen.engine.workspace_bytes});
  return [=, blas = gpu.blas.get(), stream = gpu.stream.get()] {
    matmul->run(blas,
                {.a = *slots[0], .b = *slots[1], .d = *slots[2], .workspace = optional_at<void>(workspace)},
                stream);
  };
}

}  // namespace

bool is_product(const ConvolutionGraph& graph) {
  const auto& [outputs, channels, height, width] = graph.w;
  return height == 1 && width == 1 && channels == graph.x[1] && graph.stride == Size2d{1, 1} &&
         graph.padding == Size2d{0, 0};
}

bool ConvolutionChoice::is_product() const {
  return engine.text.starts_with(kPrefix);
}

std::vector<ConvolutionChoice> product_choices(const Gpu& gpu, const ConvolutionGraph& whole) {
  std::vector<ConvolutionChoice> found;
  if (!is_product(whole)) return found;
  const ConvolutionGraph graph = whole.kind == Kind::forward ? convolution_alone(whole) : whole;
  const MatrixProduct product = roles_of(graph).product;
  for (const MatmulAlgorithm& algorithm : matmul_algorithms(gpu.blas.get(), product, kMatmulsTimed)) {
    cudnn::EngineChoice engine{.text = std::string(kPrefix) + algorithm.text};
    engine.workspace_bytes = algorithm.workspace_bytes;
    engine.tensor_cores = product.on_tensor_cores();
    found.push_back({whole, graph, std::move(engine)});
  }
  return found;
}

std::function<void()> library_part(const Gpu& gpu, const ConvolutionChoice& chosen,
                                   std::vector<BoundTensor> tensors, void* const* workspace) {
  if (chosen.is_product()) return product_part(gpu, chosen, tensors, workspace);
  auto plan = std::make_shared<BoundPlan>(gpu.cudnn->plan(chosen.graph, chosen.engine.text),
                                          std::move(tensors), workspace, chosen.own_bytes());
  return [plan] { plan->run(); };
}

}  // namespace trainer::cuda
