// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/engine/communicator_library.h"

namespace trainer::mpi {

/// The ranks of MPI_COMM_WORLD. Throws Error (exit 69) where MPI does not start, or does not see the ranks
/// that the launcher has told of.
std::unique_ptr<Communicator> open(const CommunicatorRequest& request);

}  // namespace trainer::mpi
