// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "cpu/onednn.h"

namespace trainer::cpu {

/// A handler that computes in f32 what is stored in bf16, where `pays(context)` and the handler then gives an
/// algorithm that it has in f32 only, whose name begins so: bf16 tensors are converted in the workspace,
/// before and after.
Handler widened(const std::shared_ptr<OneDnn>& onednn, const Handler& handler,
                const std::function<bool(const OpContext&)>& pays, const std::string& algorithm);

}  // namespace trainer::cpu
