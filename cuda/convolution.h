// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "cuda/bias.h"
#include "cuda/block_sums.h"
#include "cuda/cudnn/library.h"
#include "cuda/handler.h"

namespace trainer::cuda {

/// How a convolution runs: the part done by cuDNN, and its engine. One of our kernels does the rest of
/// `whole`. cuBLASLt may replace cuDNN (convolution_product.h): the engine is then one of its algorithms.
struct ConvolutionChoice {
  cudnn::ConvolutionGraph whole, graph;
  cudnn::EngineChoice engine;

  bool is_product() const;
  bool is_split() const;
  /// Bytes at the workspace's beginning that are not cuDNN's: a gradient that is converted when cuDNN is
  /// done, or sums of y that are not needed.
  int64_t own_bytes() const;
  int64_t workspace_bytes() const;
  /// Its text in a tuning.
  std::string text() const { return graph.text() + " by " + engine.text; }
};

/// Everything that the operation needs from cuDNN, with the run's requirements for its numbers: bias, relu
/// and the type of the result are in the graph.
cudnn::ConvolutionGraph convolution_graph(const Gpu& gpu, const OpContext& context);
/// cuDNN's part if our kernels do all they can.
cudnn::ConvolutionGraph convolution_alone(cudnn::ConvolutionGraph graph);

/// The heuristics' first that runs, or the one that a measurement now or earlier found to be the fastest.
std::optional<ConvolutionChoice> choose_convolution(const Gpu& gpu, const OpContext& context);

/// The work of one of our kernels after `convolution_alone(whole)`. Forward: bias (nullptr: none) and relu,
/// with `from` the bias and `to` y; otherwise a conversion of the gradient `from` to `to`.
cudaError_t launch_rest(const cudnn::ConvolutionGraph& whole, const void* from, void* to,
                        cudaStream_t stream);

// Sums of y and of y^2 over each channel, if needed: cuDNN's or, if it only convolves, those
// of a pass over y. An engine of cuDNN may add to the existing values; the graph's description does not say.

/// Distance from the sums of y to those of y^2, in bytes, if both are in the workspace.
int64_t squares_offset(const cudnn::ConvolutionGraph& graph);
/// Number of kernels that the node starts.
int summing_kernels(const ConvolutionChoice& chosen, const OpContext& context);
/// Before cuDNN: clears its sums unless they are in zeros.
cudaError_t clear_sums(const ConvolutionChoice& chosen, const Slots& slots, cudaStream_t stream);
/// After a convolution alone.
cudaError_t launch_sums(const ConvolutionChoice& chosen, const void* y, float* sums, float* squares,
                        const BlockSums& memory, cudaStream_t stream);

}  // namespace trainer::cuda
