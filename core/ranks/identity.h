// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace trainer {

/// The position of this process among those that train together.
struct RankIdentity {
  int64_t rank = 0, ranks = 1;
  int64_t local_rank = 0, local_ranks = 1;  ///< among those on this host
  std::string source;   ///< the variables that say so, for messages: "RANK", "OMPI_COMM_WORLD_RANK", …
  std::string address;  ///< of the host of rank 0, and the port where it listens; "" and 0: unknown
  uint16_t port = 0;

  bool is_alone() const { return ranks == 1; }
  bool operator==(const RankIdentity&) const = default;
};

/// Reads the launcher's variables: RANK, WORLD_SIZE and LOCAL_RANK with MASTER_ADDR and MASTER_PORT
/// (torchrun); else OMPI_COMM_WORLD_* (Open MPI's mpirun); else PMI_RANK and PMI_SIZE (MPICH's); else
/// Slurm's. Those count only within a step that srun started, since a batch script has some of them as well.
/// Without any of these the process is alone. Throws Error: exit 64 if they are incomplete or contradict
/// each other, 69 if those of two launchers do.
RankIdentity launched_as();

}  // namespace trainer
