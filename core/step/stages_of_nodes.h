// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <vector>

#include "core/graph/program.h"
#include "core/step/pipeline_schedule.h"

namespace trainer {

/// By node of an entry the stages of a pipeline that it belongs to. A node belongs where what it reads is
/// made; of two stages of one rank to that which a micro-batch reaches later. One that reads only inputs and
/// persistent tensors belongs wherever its result is read. If nothing of a stage reads it either, it belongs
/// to all, and the set is empty. Outputs are of the last stage. Throws std::logic_error if a node reads what
/// stages of two ranks make.
std::vector<std::set<int64_t>> stages_of_nodes(const Entry& entry, const PipelineSchedule& schedule);

/// Outputs with what goes to other stages are named by the route.
std::string sent_name(size_t route);
std::optional<size_t> sent_route(const NamedTensor& output);

}  // namespace trainer
