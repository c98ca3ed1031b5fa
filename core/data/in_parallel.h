// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace trainer {

/// Calls work(i) for each i below count, from so many threads. Of several exceptions that of the lowest i is
/// thrown.
void in_parallel(size_t count, int64_t threads, const std::function<void(size_t)>& work);

}  // namespace trainer
