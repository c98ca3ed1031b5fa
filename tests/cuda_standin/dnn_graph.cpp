// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_standin/dnn.h"

#include <algorithm>
#include <tuple>

namespace trainer::standin {
namespace {

[[noreturn]] void unknown(const std::string& what) {
  throw Refusal{CUDNN_STATUS_NOT_SUPPORTED, "the stand-in does not know " + what};
}

Images images_of(const Object& tensor) {
  Images images;
  const auto shape = tensor.values<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
             strides = tensor.values<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  if (shape.size() != 4 || strides.size() != 4) unknown("a tensor that has not four dimensions");
  std::copy(shape.begin(), shape.end(), images.shape.begin());
  const auto& [n, c, h, w] = images.shape;
  if (strides != std::vector<int64_t>{h * w * c, 1, w * c, c})
    unknown("a tensor whose channels are not last");
  images.type = tensor.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  images.uid = tensor.value<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  images.alignment = tensor.value<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  images.is_virtual = tensor.value<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  return images;
}

std::array<int64_t, 2> pair_of(const Object& geometry, cudnnBackendAttributeName_t name) {
  const auto values = geometry.values<int64_t>(name);
  if (values.size() != 2) unknown("a convolution that has not two dimensions");
  return {values[0], values[1]};
}

/// The three kinds number their attributes alike, from alpha on: beta, geometry, w, x, y.
int first_attribute(Direction direction) {
  switch (direction) {
    case Direction::forward:
      return CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA;
    case Direction::backward_data:
      return CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA;
    case Direction::backward_weights:
      return CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA;
  }
  return 0;
}

Direction direction_of(const Object& operation) {
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return Direction::forward;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return Direction::backward_data;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return Direction::backward_weights;
    default:
      unknown("a graph that does not begin with a convolution");
  }
}

void expect_geometry(const Graph& graph) {
  const auto& [x, w, y] = std::tie(graph.x.shape, graph.w.shape, graph.y.shape);
  bool fits = y[0] == x[0] && y[1] == w[0] && x[1] % w[1] == 0 && w[0] % graph.groups() == 0;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t reach = graph.dilation[i] * (w[2 + i] - 1) + 1;
    fits = fits && y[2 + i] == (x[2 + i] + 2 * graph.padding[i] - reach) / graph.stride[i] + 1;
  }
  if (!fits) throw Refusal{CUDNN_STATUS_BAD_PARAM, "a convolution's shapes do not fit together"};
}

void read_convolution(const Object& operation, Graph& graph) {
  graph.direction = direction_of(operation);
  const auto attribute = [&](int place) {
    return static_cast<cudnnBackendAttributeName_t>(first_attribute(graph.direction) + place);
  };
  if (operation.value<float>(attribute(0)) != 1 || operation.value<float>(attribute(1)) != 0)
    unknown("factors other than 1 and 0");
  const Object& geometry = operation.child(attribute(2));
  graph.padding = pair_of(geometry, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  if (graph.padding != pair_of(geometry, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)) unknown("uneven padding");
  graph.stride = pair_of(geometry, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  graph.dilation = pair_of(geometry, CUDNN_ATTR_CONVOLUTION_DILATIONS);
  graph.w = images_of(operation.child(attribute(3)));
  graph.x = images_of(operation.child(attribute(4)));
  graph.y = images_of(operation.child(attribute(5)));
  expect_geometry(graph);
  graph.result = graph.direction == Direction::forward         ? graph.y
                 : graph.direction == Direction::backward_data ? graph.x
                                                               : graph.w;
}

void read_pointwise(const Object& operation, Graph& graph) {
  const Object& how = operation.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  Pointwise step{.mode = how.value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE), .other = std::nullopt};
  if (!graph.result.is_virtual ||
      images_of(operation.child(CUDNN_ATTR_OPERATION_POINTWISE_XDESC)).uid != graph.result.uid)
    unknown("operations that are not a chain of virtual tensors");
  if (operation.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC))
    step.other = images_of(operation.child(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
  if (step.mode == CUDNN_POINTWISE_ADD && (!step.other || step.other->count() != graph.result.shape[1]))
    unknown("a sum that is no bias");
  if (step.mode != CUDNN_POINTWISE_ADD && step.mode != CUDNN_POINTWISE_RELU_FWD &&
      step.mode != CUDNN_POINTWISE_IDENTITY)
    unknown("this element-wise function");
  graph.result = images_of(operation.child(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  graph.rest.push_back(step);
}

void read_sums(const Object& operation, Graph& graph) {
  if (operation.value<cudnnGenStatsMode_t>(CUDNN_ATTR_OPERATION_GENSTATS_MODE) != CUDNN_GENSTATS_SUM_SQSUM ||
      graph.result.is_virtual || !graph.rest.empty() || graph.direction != Direction::forward ||
      images_of(operation.child(CUDNN_ATTR_OPERATION_GENSTATS_XDESC)).uid != graph.result.uid)
    unknown("statistics of anything but a convolution's result");
  graph.sums = {images_of(operation.child(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC)),
                images_of(operation.child(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC))};
  for (const Images& sums : *graph.sums) {
    if (sums.count() != graph.result.shape[1] || sums.type != CUDNN_DATA_FLOAT || sums.is_virtual)
      unknown("sums that are not an f32 for each channel");
  }
}

}  // namespace

Graph graph_of(const Object& operations) {
  Graph graph;
  const std::vector<ObjectPointer>& all = operations.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).objects;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i == 0) {
      read_convolution(*all[i], graph);
    } else if (all[i]->type == CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR) {
      read_sums(*all[i], graph);
    } else {
      read_pointwise(*all[i], graph);
    }
  }
  if (all.empty() || graph.result.is_virtual) unknown("a graph without a result");
  return graph;
}

}  // namespace trainer::standin
