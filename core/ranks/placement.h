// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/host/findings.h"
#include "core/ranks/identity.h"

namespace trainer {

/// Where a rank is, and what it has there.
struct RankPlacement {
  int64_t rank = 0, local_rank = 0, local_ranks = 1;
  std::string host, address;            ///< the address at which other hosts reach this one
  std::vector<int64_t> processors;      ///< that it may use
  int64_t cores = 0, online_cores = 0;  ///< physical: of these processors, and of the host
  int64_t threads = 1;                  ///< that it would have by default
  std::vector<int64_t> nodes;           ///< NUMA nodes of its processors
  std::vector<int64_t> memory_nodes;    ///< those whose memory it may have
  std::string gpu, mpi;                 ///< "" if there is none
};

/// Of this process. GPU and MPI are for the caller.
RankPlacement own_placement(const RankIdentity& identity);

Json to_json(const RankPlacement& placement);
/// Of JSON that to_json has made.
RankPlacement placement_from(const Json& json);

/// What is wrong with the placement of ranks, of which each host has one or more: processors that several are
/// bound to, cores that none may use, more threads than cores, memory on other NUMA nodes.
std::vector<Finding> placement_findings(const std::vector<RankPlacement>& ranks);

}  // namespace trainer
