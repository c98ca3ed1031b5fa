// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/handler.h"

namespace trainer::cpu {

// The largest element of each window, in the layout of x if its channels are in blocks, else row-major.
// Unlike oneDNN's it keeps NaN, and windows of -infinity. Places are written in the format of oneDNN's
// gradient.

Choice select_max_pool(const OpContext& context, const OpenLayouts& inputs);
std::unique_ptr<Kernel> compile_max_pool(const OpContext& context, const Choice& choice, const Slots& slots);

}  // namespace trainer::cpu
