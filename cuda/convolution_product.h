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
/// relu and moments are left to own kernels; the gradient of the weights comes in the type that is asked for.
std::vector<ConvolutionChoice> product_choices(const Gpu& gpu, const cudnn::ConvolutionGraph& whole);

/// What a library does of a convolution, ready to run on what the slots hold by then.
std::function<void()> library_part(const Gpu& gpu, const ConvolutionChoice& chosen,
                                   std::vector<BoundTensor> tensors, void* const* workspace);

}  // namespace trainer::cuda
