// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/error.h"
#include "core/engine/communicator.h"
#include "core/engine/executable.h"

namespace trainer {

/// The ranks' weights are not the same: saves since they were last compared may be wrong.
class ReplicasDiffer : public Error {
 public:
  explicit ReplicasDiffer(const std::string& text) : Error(ExitCode::internal, text) {}
};

/// Compares the parameters and states of all ranks, which must be bitwise identical. Every rank calls it at
/// once, with nothing in flight. Throws ReplicasDiffer (exit 70) on all of them where they differ: with the
/// ranks, their hosts and the first tensor. What more than half of the ranks have is right; otherwise all are
/// named.
void require_equal_replicas(const Executable& executable, Communicator& ranks, int64_t step);

}  // namespace trainer
