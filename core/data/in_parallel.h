// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace trainer {

/// Calls work(i) for each i in [0, count) on up to `threads` threads, one of which is the caller's. Rethrows
/// the exception of the lowest i once all calls have ended.
void in_parallel(size_t count, int64_t threads, const std::function<void(size_t)>& work);

}  // namespace trainer
