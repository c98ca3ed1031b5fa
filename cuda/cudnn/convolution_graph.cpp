// SPDX-License-Identifier: Apache-2.0
#include "cuda/cudnn/convolution_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <utility>
#include <vector>

namespace trainer::cuda::cudnn {
namespace {

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::f16:
      return CUDNN_DATA_HALF;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    default:
      throw std::logic_error(fmt::format("no convolution of {}", to_string(dtype)));
  }
}

/// (N, C, H, W) channels last; `is_virtual`: it never reaches memory.
Descriptor tensor(const std::array<int64_t, 4>& shape, DType dtype, TensorUid uid, bool is_virtual = false,
                  int64_t alignment = 16) {
  const auto& [n, c, h, w] = shape;
  Descriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor of a convolution");
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(dtype))
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::vector<int64_t>{n, c, h, w})
      .set(CUDNN_ATTR_TENSOR_STRIDES, std::vector<int64_t>{h * w * c, 1, w * c, c})
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, int64_t{uid})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual);
  made.finalize();
  return made;
}

Descriptor geometry(const ConvolutionGraph& graph) {
  const auto pair = [](const std::array<int64_t, 2>& size) {
    return std::vector<int64_t>(size.begin(), size.end());
  };
  Descriptor made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "a convolution's geometry");
  made.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pair(graph.padding))
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, pair(graph.padding))
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, pair(graph.dilation))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, pair(graph.stride));
  made.finalize();
  return made;
}

/// The three directions number their attributes alike, from a base: alpha, beta, geometry, w, x, y.
Descriptor convolution(const ConvolutionGraph& graph, const Descriptor& w, const Descriptor& y) {
  struct Direction {
    cudnnBackendDescriptorType_t type;
    int first;
  };
  static constexpr Direction kDirections[] = {{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                               CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA},
                                              {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA},
                                              {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA}};
  const Direction& direction = kDirections[static_cast<size_t>(graph.kind)];
  const auto attribute = [&](int place) {
    return static_cast<cudnnBackendAttributeName_t>(direction.first + place);
  };
  Descriptor made(direction.type, "a convolution");
  made.set(attribute(0), 1.0f)
      .set(attribute(1), 0.0f)
      .set(attribute(2), geometry(graph))
      .set(attribute(3), w)
      .set(attribute(4), tensor(graph.x, graph.dtype, kX, false, graph.x_alignment))
      .set(attribute(5), y);
  made.finalize();
  return made;
}

/// to = mode(from[, other]) in f32
Descriptor pointwise(cudnnPointwiseMode_t mode, const Descriptor& from, const Descriptor* other,
                     const Descriptor& to) {
  Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "an element-wise function");
  how.set(CUDNN_ATTR_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_PROPAGATE_NAN);  // as our own relu
  how.finalize();
  Descriptor made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "an element-wise operation");
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from);
  if (other != nullptr) made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *other);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
  made.finalize();
  return made;
}

/// The sums of y and of y^2 over each channel.
Descriptor channel_sums(const ConvolutionGraph& graph, const Descriptor& y) {
  const std::array<int64_t, 4> channels{1, graph.y[1], 1, 1};
  Descriptor made(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR, "sums of a convolution's result");
  made.set(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_GENSTATS_SUM_SQSUM)
      .set(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, y)
      .set(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, tensor(channels, DType::f32, kSums))
      .set(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, tensor(channels, DType::f32, kSquares));
  made.finalize();
  return made;
}

}  // namespace

std::string ConvolutionGraph::text() const {
  constexpr const char* kNames[] = {"forward", "backward_data", "backward_weights"};
  std::string text = fmt::format("{} {}{} x={} w={} y={} padding={} stride={} dilation={}",
                                 kNames[static_cast<size_t>(kind)], to_string(dtype), tf32 ? "/tf32" : "",
                                 fmt::join(x, "x"), fmt::join(w, "x"), fmt::join(y, "x"),
                                 fmt::join(padding, "x"), fmt::join(stride, "x"), fmt::join(dilation, "x"));
  if (bias) text += fmt::format(" bias {}", to_string(bias_dtype));
  if (relu) text += " relu";
  if (moments) text += " moments";
  if (converts()) text += fmt::format(" to {}", to_string(dw_dtype));
  if (x_alignment != 16) text += fmt::format(" aligned to {}", x_alignment);
  if (deterministic) text += " deterministic";
  return text;
}

Descriptor operation_graph(const ConvolutionGraph& graph, cudnnHandle_t handle) {
  std::vector<Descriptor> operations;
  const bool fused = graph.bias || graph.relu, converts = graph.converts();
  const Descriptor w = converts ? tensor(graph.w, DType::f32, kConvolved, true)  //
                                : tensor(graph.w, graph.dtype, kW);
  Descriptor last = fused ? tensor(graph.y, DType::f32, kConvolved, true) : tensor(graph.y, graph.dtype, kY);
  operations.push_back(convolution(graph, w, last));
  if (graph.moments) operations.push_back(channel_sums(graph, last));
  if (converts) {
    operations.push_back(
        pointwise(CUDNN_POINTWISE_IDENTITY, w, nullptr, tensor(graph.w, graph.dw_dtype, kW)));
  }
  if (graph.bias) {
    const Descriptor bias = tensor({1, graph.y[1], 1, 1}, graph.bias_dtype, kBias);
    Descriptor biased =
        graph.relu ? tensor(graph.y, DType::f32, kBiased, true) : tensor(graph.y, graph.dtype, kY);
    operations.push_back(pointwise(CUDNN_POINTWISE_ADD, last, &bias, biased));
    last = std::move(biased);
  }
  if (graph.relu) {
    operations.push_back(
        pointwise(CUDNN_POINTWISE_RELU_FWD, last, nullptr, tensor(graph.y, graph.dtype, kY)));
  }
  Descriptor made(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "a graph of operations");
  made.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
  if (handle != nullptr) made.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  made.finalize();
  return made;
}

}  // namespace trainer::cuda::cudnn
