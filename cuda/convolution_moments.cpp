// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "core/engine/arena.h"
#include "core/graph/ops/conv2d.h"
#include "cuda/batch_norm.h"
#include "cuda/convolution.h"

namespace trainer::cuda {
namespace {

ImageRows rows_of_y(const cudnn::ConvolutionGraph& graph) {
  const auto& [n, channels, height, width] = graph.y;
  return {n * height * width, channels, graph.dtype};
}

/// Outputs that hold sums.
struct SumsOutput {
  size_t output, zeros;  ///< the input that they may be added to
};
constexpr std::array<SumsOutput, 2> kSumsOutputs{
    {{Conv2d::kSums, Conv2d::kZeroSums}, {Conv2d::kSquares, Conv2d::kZeroSquares}}};

}  // namespace

int64_t squares_offset(const cudnn::ConvolutionGraph& graph) {
  return align_up(graph.y[1] * static_cast<int64_t>(sizeof(float)), kWorkspaceAlignment);
}

int64_t ConvolutionChoice::workspace_bytes() const {
  const int64_t bytes = own_bytes() + engine.workspace_bytes;
  return whole.moments && is_split() ? std::max(bytes, batch_norm_workspace_bytes(rows_of_y(whole))) : bytes;
}

int summing_kernels(const ConvolutionChoice& chosen, const OpContext& context) {
  const auto wanted = static_cast<int>(std::ranges::count_if(
      kSumsOutputs, [&](const SumsOutput& sums) { return context.has_output(sums.output); }));
  if (chosen.is_split()) return wanted > 0 ? 2 : 1;
  return context.has_input(Conv2d::kZeroSums) ? 1 : 1 + wanted;
}

cudaError_t clear_sums(const ConvolutionChoice& chosen, const Slots& slots, cudaStream_t stream) {
  if (!chosen.graph.moments) return cudaSuccess;
  for (const auto& [output, zeros] : kSumsOutputs) {
    void* sums = optional_at<void>(slots.outputs[output]);
    if (sums == nullptr || optional_at<void>(slots.inputs[zeros]) == sums) continue;
    const auto bytes = static_cast<size_t>(chosen.graph.y[1]) * sizeof(float);
    if (const cudaError_t status = cudaMemsetAsync(sums, 0, bytes, stream); status != cudaSuccess)
      return status;
  }
  return cudaSuccess;
}

cudaError_t launch_sums(const ConvolutionChoice& chosen, const void* y, float* sums, float* squares,
                        const BlockSums& memory, cudaStream_t stream) {
  return launch_channel_sums(rows_of_y(chosen.whole), y, sums, squares, memory, stream);
}

}  // namespace trainer::cuda
