// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "core/engine/process_group_library.h"

namespace trainer::mpi {

/// The ranks of MPI_COMM_WORLD. Throws Error (exit 69) if MPI does not start, or does not see the ranks
/// that the launcher describes.
std::unique_ptr<ProcessGroup> open(const ProcessGroupRequest& request);

/// The release of the MPI that is loaded, "Open MPI v4.1.4". Does not start it.
std::string describe();

}  // namespace trainer::mpi
