// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/layers/network.h"
#include "core/step/pipeline_schedule.h"

namespace trainer {

/// How ranks share a network by layers.
struct PipelineSpec {
  PipelineSchedule schedule;
  std::vector<std::string> cuts;  ///< names of the layers that stages begin with, but the first; or empty
  Origin origin;                  ///< of the request for a pipeline
  Origin origin_of_cuts;
  Origin origin_of_chunks;
};

/// Throws Error (exit 78) if there are fewer layers than stages, if a name is not a later layer's, or if the
/// names' number or order is wrong.
void check_stages(const Network& network, const PipelineSpec& spec);

/// The stage of each layer. Without names the slowest stage is about as fast as it can be, by FLOPs and by
/// the bytes that it receives; of such cuts those with the fewest bytes. `program` has the forward part in
/// its first entry. Throws as check_stages does.
std::vector<int64_t> stages_of_layers(const Network& network, const Program& program,
                                      const PipelineSpec& spec);

}  // namespace trainer
