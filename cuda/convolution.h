// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "cuda/bias.h"
#include "cuda/block_sums.h"
#include "cuda/cudnn/library.h"
#include "cuda/handler.h"

namespace trainer::cuda {

/// How a convolution runs: what of it cuDNN does, and on which engine. The rest of `whole` is an own
/// kernel's. cuBLASLt may take cuDNN's place (convolution_product.h): the engine is then an algorithm of its.
struct ConvolutionChoice {
  cudnn::ConvolutionGraph whole, graph;
  cudnn::EngineChoice engine;

  bool is_product() const;
  bool is_split() const;
  /// Bytes at the workspace's beginning that are not cuDNN's: a gradient that is converted when cuDNN is
  /// done, or sums of y that nobody wants.
  int64_t own_bytes() const;
  int64_t workspace_bytes() const;
  /// As it is kept in a tuning.
  std::string text() const { return graph.text() + " by " + engine.text; }
};

/// All that the operation wants of cuDNN, and what the run wants of its numbers: bias, relu and the type of
/// the result are in the graph.
cudnn::ConvolutionGraph convolution_graph(const Gpu& gpu, const OpContext& context);
/// The part that cuDNN does if own kernels do what they can.
cudnn::ConvolutionGraph convolution_alone(cudnn::ConvolutionGraph graph);

/// The heuristics' first that runs, or the one that a measurement of now or earlier says is the fastest.
std::optional<ConvolutionChoice> choose_convolution(const Gpu& gpu, const OpContext& context);

/// What an own kernel does after `convolution_alone(whole)`. Forward: bias (nullptr: none) and relu, `from`
/// being the bias and `to` y; else a conversion of the gradient `from` to `to`.
cudaError_t launch_rest(const cudnn::ConvolutionGraph& whole, const void* from, void* to,
                        cudaStream_t stream);

// Sums of y and of y^2 over each channel, if they are wanted: cuDNN's or, if it convolves alone, those
// of a pass over y. An engine of cuDNN's may add to what is there, the graph's description does not say.

/// From the sums of y to those of y^2, in bytes, if both are in the workspace.
int64_t squares_offset(const cudnn::ConvolutionGraph& graph);
/// How many kernels the node starts.
int summing_kernels(const ConvolutionChoice& chosen, const OpContext& context);
/// Before cuDNN: clears its sums if they are not in zeros.
cudaError_t clear_sums(const ConvolutionChoice& chosen, const Slots& slots, cudaStream_t stream);
/// After a convolution alone.
cudaError_t launch_sums(const ConvolutionChoice& chosen, const void* y, float* sums, float* squares,
                        const BlockSums& memory, cudaStream_t stream);

}  // namespace trainer::cuda
