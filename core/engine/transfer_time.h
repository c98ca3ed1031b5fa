// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/mesh.h"
#include "core/engine/machine_description.h"

namespace trainer {

/// What ranks do together.
enum class Transfer { sum, gather, scatter, broadcast, message };

/// The ranks that take part: `ranks` of them, each `stride` after the one before. All ranks of the machine do
/// the same in groups of their own, at the same time.
struct RankGroup {
  int64_t ranks = 1;
  int64_t stride = 1;
};

/// The ranks along an axis.
RankGroup group_along(const Mesh& mesh, Axis axis);

/// Seconds on the links for tensors of `bytes`: of sums and broadcasts the tensor, of gathers and scatters
/// the whole, of a message what is sent to the next rank. Sums are rings within a node, and rings or trees
/// among nodes, the faster of both; the parts within and among nodes overlap. Rings and trees: Thakur et al.,
/// "Optimization of Collective Communication Operations in MPICH", 2005; Sanders et al., "Two-tree
/// algorithms for full bandwidth broadcast, reduction and scan", 2009.
double transfer_seconds(const MachineDescription& machine, Transfer what, const RankGroup& group,
                        double bytes);

/// Seconds of the rank's processor for the same.
double processor_seconds(const MachineDescription& machine, Transfer what, const RankGroup& group,
                         double bytes);

}  // namespace trainer
