// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/base/dtype.h"
#include "cuda/cudnn/descriptor.h"

namespace trainer::cuda::cudnn {

/// One convolution or one of its gradients, as cuDNN describes it. Images, weights (O, C/groups, kh, kw) and
/// results are channels last. All are of `dtype` except for the bias and the weights' gradient, and sums are
/// f32. Only values, so that it can be sent to another process as bytes.
struct ConvolutionGraph {
  enum class Kind : int32_t { forward, backward_data, backward_weights };
  Kind kind = Kind::forward;
  DType dtype = DType::f32;
  DType bias_dtype = DType::f32;
  DType dw_dtype = DType::f32;  ///< backward_weights: of the result
  std::array<int64_t, 4> x{}, w{}, y{};
  std::array<int64_t, 2> padding{}, stride{}, dilation{};
  bool bias = false;  ///< forward: y = relu(conv(x, w) + bias), each part if needed
  bool relu = false;
  bool moments = false;        ///< forward: also the sums of y and of y^2 over each channel, f32
  int64_t x_alignment = 16;    ///< bytes; y, weights and bias begin at multiples of 16
  bool tf32 = false;           ///< f32 factors may be rounded to 10 bits, for tensor cores
  bool deterministic = false;  ///< bitwise identical every time

  /// Whether the result is of another type: the graph then converts the sums, as no engine does by itself.
  bool converts() const { return kind == Kind::backward_weights && dw_dtype != dtype; }
  /// "forward f32 x=1x3x8x8 w=…": equal if the graphs are.
  std::string text() const;
};

/// A revision of operation_graph's results for equal graphs: kept plans of another revision do not count.
/// Increase it with every change; a test compares.
constexpr int kGraphRevision = 1;

/// Names of the tensors when a plan is run.
enum TensorUid : int64_t { kX = 1, kW, kY, kBias, kConvolved, kBiased, kSums, kSquares };

/// The finalised operation graph; `handle` is nullptr without a device.
Descriptor operation_graph(const ConvolutionGraph& graph, cudnnHandle_t handle);

}  // namespace trainer::cuda::cudnn
