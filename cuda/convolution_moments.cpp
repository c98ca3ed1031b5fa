// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>

#include "core/engine/arena.h"
#include "cuda/batch_norm.h"
#include "cuda/convolution.h"

namespace trainer::cuda {
namespace {

ImageRows rows_of_y(const cudnn::ConvolutionGraph& graph) {
  const auto& [n, channels, height, width] = graph.y;
  return {n * height * width, channels, graph.dtype};
}

const float* squares_at(const cudnn::ConvolutionGraph& graph, void* workspace) {
  return reinterpret_cast<const float*>(static_cast<std::byte*>(workspace) + squares_offset(graph));
}

}  // namespace

int64_t squares_offset(const cudnn::ConvolutionGraph& graph) {
  return align_up(graph.y[1] * static_cast<int64_t>(sizeof(float)), kWorkspaceAlignment);
}

int64_t ConvolutionChoice::workspace_bytes() const {
  const int64_t bytes = own_bytes() + engine.workspace_bytes;
  return whole.moments && is_split() ? std::max(bytes, batch_norm_workspace_bytes(rows_of_y(whole))) : bytes;
}

int moments_kernels(const ConvolutionChoice& chosen, bool wanted) {
  constexpr int kCleared = 1, kOfSums = 1, kMeasured = 2;
  return chosen.graph.moments ? kCleared + 1 + (wanted ? kOfSums : 0) : 1 + (wanted ? kMeasured : 0);
}

cudaError_t clear_sums(const ConvolutionChoice& chosen, void* workspace, cudaStream_t stream) {
  if (!chosen.graph.moments) return cudaSuccess;
  return cudaMemsetAsync(workspace, 0, static_cast<size_t>(chosen.own_bytes()), stream);
}

cudaError_t launch_moments(const ConvolutionChoice& chosen, const void* y, float* moments, void* workspace,
                           cudaStream_t stream) {
  const ImageRows images = rows_of_y(chosen.whole);
  if (!chosen.graph.moments) return launch_moments(images, y, moments, workspace, stream);
  return launch_moments_of_sums(images.rows, images.channels, static_cast<const float*>(workspace),
                                squares_at(chosen.whole, workspace), moments, stream);
}

}  // namespace trainer::cuda
