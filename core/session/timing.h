// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/recipe/job.h"
#include "core/train/run_times.h"

namespace trainer {

/// A generation's reading of a prompt.
struct PromptTimes {
  int64_t tokens = 0;  ///< of all sequences, in one run
  RunTimes times;
};

/// Measured times of a job with made-up inputs and random weights.
struct Timing {
  int64_t batch = 0;  ///< samples of a run; of a generation sequences, each of which gets a token
  RunTimes runs;
  std::optional<PromptTimes> prompt;  ///< of a generation of at least three positions
  std::vector<LayerTime> layers;      ///< of a run; of a generation of a token
};

/// Runs before those that count: libraries do their one-time work in them, and a device captures its graph.
constexpr int64_t kWarmUpRuns = 5;

/// Takes the job's memory on the device and measures: a whole training step, a batch of prediction with its
/// output read, or a token of each sequence. Weights do not change. Throws Error (exit 71) without memory.
Timing time_job(const Job& job, Device& device, int64_t runs);

}  // namespace trainer
