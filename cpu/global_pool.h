// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/handler.h"

namespace trainer::cpu {

/// Whether an average pool (or its gradient) has one window, the whole image. oneDNN runs the gradient of
/// that by reference code if the small side is row-major, as it always is next to a linear layer.
bool is_global_pool(const OpContext& context);

Choice select_global_pool(const OpContext& context, const OpenLayouts& inputs);
std::unique_ptr<Kernel> compile_global_pool(const OpContext& context, const Choice& choice,
                                            const Slots& slots);
Choice select_global_pool_backward(const OpContext& context, const OpenLayouts& inputs);
std::unique_ptr<Kernel> compile_global_pool_backward(const OpContext& context, const Choice& choice,
                                                     const Slots& slots);

}  // namespace trainer::cpu
