// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/error.h"
#include "core/engine/executable.h"
#include "core/engine/process_group.h"

namespace trainer {

/// The ranks' weights differ: saves since the last comparison may be wrong.
class ReplicasDiffer : public Error {
 public:
  explicit ReplicasDiffer(const std::string& text) : Error(ExitCode::internal, text) {}
};

/// Compares the parameters and states of all ranks, which must be bitwise identical. Every rank calls it at
/// once, with nothing in flight. If they differ, throws ReplicasDiffer (exit 70) on all ranks, with the ranks
/// that differ, their hosts and the first tensor. The values of a majority count as right; without one, all
/// ranks are named.
void require_equal_replicas(const Executable& executable, ProcessGroup& group, int64_t step);

}  // namespace trainer
