// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "cuda/handler.h"

namespace trainer::cuda {

/// With runtime.autotune: the algorithm that was the fastest for what `key` names, found by this run or,
/// where that may count, by another one of the user's on such a machine.
std::optional<std::string> known_fastest(const Gpu& gpu, const std::string& key);

/// Notes it for this run.
void keep_fastest(const Gpu& gpu, const std::string& key, const std::string& algorithm);
/// And for other runs, after it was timed.
void share_fastest(const Gpu& gpu, const std::string& key, const std::string& algorithm);

}  // namespace trainer::cuda
