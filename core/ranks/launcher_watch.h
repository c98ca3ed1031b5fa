// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <variant>

#include "core/host/children.h"

namespace trainer {

/// How long a launcher may outlive its processes, and how long the others may outlive the first.
struct LauncherTimeouts {
  std::chrono::seconds with_launcher, with_others;
};
enum class Late { launcher, others };

/// Waits for the only child, a launcher of this many processes. Returns its exit status, or which timeout has
/// passed; then its remaining processes are killed.
std::variant<int, Late> await_launcher(Children& children, int64_t processes,
                                       const LauncherTimeouts& timeout);

}  // namespace trainer
