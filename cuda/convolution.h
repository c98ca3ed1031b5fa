// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/cudnn/convolution_graph.h"
#include "cuda/handler.h"

namespace trainer::cuda {

/// What cuDNN is asked for a convolution or one of its gradients. Bias and relu are in the graph; where the
/// library has no fast engine for them together, `select` leaves them to an own kernel.
cudnn::ConvolutionGraph convolution_graph(const OpContext& context);

}  // namespace trainer::cuda
