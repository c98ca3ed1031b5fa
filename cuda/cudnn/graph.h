// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <variant>

#include "cuda/cudnn/attention_graph.h"
#include "cuda/cudnn/convolution_graph.h"

namespace trainer::cuda::cudnn {

/// A graph for queries and plans of cuDNN.
using Graph = std::variant<ConvolutionGraph, AttentionGraph>;

inline std::string text_of(const Graph& graph) {
  return std::visit([](const auto& one) { return one.text(); }, graph);
}

inline Descriptor operation_graph(const Graph& graph, cudnnHandle_t handle) {
  return std::visit([handle](const auto& one) { return operation_graph(one, handle); }, graph);
}

}  // namespace trainer::cuda::cudnn
