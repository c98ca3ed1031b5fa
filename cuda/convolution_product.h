// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "cuda/bound_plan.h"
#include "cuda/convolution.h"

namespace trainer::cuda {

/// Whether the convolution is a matrix product, y (pixels, O) = x (pixels, C) wT: of 1x1 kernels at stride 1.
bool is_product(const cudnn::ConvolutionGraph& graph);

/// cuBLASLt's algorithms for one of its three products; empty if `whole` is another convolution. Bias,
/// relu and moments are left to own kernels; the gradient of the weights has the requested type.
std::vector<ConvolutionChoice> product_choices(const Gpu& gpu, const cudnn::ConvolutionGraph& whole);

/// A library's part of a convolution, ready to run on the slots' present tensors.
std::function<void()> library_part(const Gpu& gpu, const ConvolutionChoice& chosen,
                                   std::vector<BoundTensor> tensors, void* const* workspace);

}  // namespace trainer::cuda
