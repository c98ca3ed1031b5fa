// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/engine/plan.h"
#include "core/graph/ops/all_reduce.h"

namespace trainer {

/// What one rank runs in a step. Ranks of a stage do the same at the same time, so one stands for all of
/// them.
struct StageStep {
  const Plan* plan = nullptr;
  std::vector<const PlannedEntry*> entries;  ///< in order, each as often as it runs
};

/// Of a plan with `micro_batches` micro-batches.
StageStep stage_step(const Plan& plan, int64_t micro_batches);

/// Seconds of a collective: on the links, and of the processor that starts it.
struct TransferTime {
  double link = 0, processor = 0;
};

/// Predicted seconds of one rank's step.
struct StageTime {
  double seconds = 0;
  double computing = 0;     ///< nodes, and the processor's part of transfers
  double transferring = 0;  ///< on the links, computing or not
  double waiting = 0;       ///< for transfers, with nothing to compute
};

/// Nodes run in the plan's order, on one queue for computation and one for transfers. A transfer begins at
/// its start node, once the link is free; its done node waits for it. A message arrives when its sender has
/// sent it. `steps` has a rank of each stage, in order. `compute` returns the seconds of a node. `transfer`
/// returns those of a collective, by its bytes: the tensor's of a sum or a broadcast, the whole's of a gather
/// or a scatter, those sent of messages. Throws std::logic_error if stages wait for each other.
using NodeSeconds = std::function<double(size_t stage, const PlannedEntry& entry, size_t node)>;
using TransferSeconds = std::function<TransferTime(const CollectiveStart& op, double bytes)>;
std::vector<StageTime> step_timeline(std::span<const StageStep> steps, const NodeSeconds& compute,
                                     const TransferSeconds& transfer);

}  // namespace trainer
