// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "tests/cuda_standin/dnn.h"
#include "tests/cuda_standin/streams.h"

// Graphs without a convolution: products, element-wise functions, reductions and reshapes of tensors of four
// dimensions, one after the other. cuDNN has fused kernels for few such graphs; the stand-in runs any.

namespace trainer::standin {

using Sizes = std::array<int64_t, 4>;

/// Strides in elements.
struct View {
  Sizes sizes{}, strides{};
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int64_t uid = 0, alignment = 0;
  bool is_virtual = false, by_value = false;

  int64_t offset(const Sizes& at) const;
  /// From the first element's place to after the last's.
  int64_t span() const;
};

struct StepOfGraph {
  cudnnBackendDescriptorType_t type;
  cudnnPointwiseMode_t mode{};
  cudnnReduceTensorOp_t reduction{};
  int64_t axis = 0;
  std::vector<View> from;
  View to;
};
using StepsOfGraph = std::vector<StepOfGraph>;

/// Whether the graph is one of these.
bool has_steps(const Object& operations);
/// Throws Refusal if the stand-in does not support a step, or if shapes do not fit together.
StepsOfGraph steps_of(const Object& operations);
/// A run's inputs and outputs in the caller's memory. Throws Refusal if an address is missing, or not as the
/// graph promised.
std::vector<Range> ranges_of(const StepsOfGraph& steps, const std::map<int64_t, void*>& tensors);
/// Numbers on the host, by their tensors' uid: they are read when a plan is run, not when its turn comes.
std::map<int64_t, float> numbers_of(const StepsOfGraph& steps, const std::map<int64_t, void*>& tensors);
void run_steps(const StepsOfGraph& steps, const std::map<int64_t, void*>& tensors,
               const std::map<int64_t, float>& numbers);

}  // namespace trainer::standin
