// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/recipe/job.h"

namespace trainer {

/// One position along a pipeline.
struct StageRow {
  std::string layers;
  int64_t parameters = 0, memory = 0;
  int64_t sent_bytes = 0, messages = 0;  ///< to other stages, in a step
  double forward = 0, backward = 0;      ///< of a step: seconds, or FLOPs
  int64_t in_flight = 0;                 ///< micro-batches whose activations it holds at once
};

/// What each stage of a pipeline computes, holds and sends, and how long ranks wait for each other.
struct PipelineRows {
  std::vector<StageRow> rows;  ///< none if there is no pipeline
  double idle = 0;             ///< share of the ranks' time
  bool is_predicted = false;   ///< times are predicted; otherwise they are taken to follow the FLOPs
};

/// Plans all stages.
PipelineRows pipeline_rows(const Planner& planner, const Job& job,
                           const std::vector<std::string>& disabled_passes);

/// For people; "" without rows.
std::string pipeline_text(const Job& job, const PipelineRows& all);

/// The same as the key "pipeline" of a report.
void add_pipeline(const Job& job, const PipelineRows& all, Json& report);

}  // namespace trainer
