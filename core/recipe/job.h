// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/data/pipeline.h"
#include "core/engine/plan.h"
#include "core/recipe/assemble.h"
#include "core/run/checkpoints.h"

namespace trainer {

/// Bytes that a run will hold, by kind. Device kinds are exact; "program" is this process before the run plus
/// what libraries take when they first compute, an estimate.
struct MemoryBudget {
  std::vector<std::pair<std::string, int64_t>> kinds;  ///< on the device
  std::vector<std::pair<std::string, int64_t>> host;   ///< where that is not the device's memory too
  int64_t total() const;                               ///< on the device
};

/// A run known before it starts: its lengths, its program, its plan and its memory.
struct Job {
  std::optional<SourceInfo> train, validation;  ///< nothing where the files are missing
  LoopSettings settings;                        ///< lengths are 0 where they depend on missing data
  CheckpointPolicy checkpoints;
  Program program;
  Plan plan;
  MemoryBudget memory;
  bool found_micro_batch = false;  ///< training.micro_batch_size was auto
  Purpose purpose = Purpose::train;
  bool averages = false;  ///< evaluate: averages are given, which are evaluated too
};

/// Options and observers for the way from recipe to plan.
struct JobOptions {
  std::vector<std::string> disabled_passes;
  PassObserver observe;
  bool plan = true;  ///< false: only the program is wanted; plan and memory stay empty
  Purpose purpose = Purpose::train;
  bool averages = false;         ///< as Job's
  SequenceExtents extents = {};  ///< generate
};

/// Throws Error: exit 78 where the recipe cannot work, 65 where a data file's header is bad.
Job make_job(const Recipe& recipe, const Planner& planner, const JobOptions& options = {});

/// The same where training.micro_batch_size may be auto: then it becomes, in `recipe`, the largest divisor of
/// the global batch whose plan fits into memory, or 1 where none does.
Job make_fitting_job(Recipe& recipe, const Planner& planner, const JobOptions& options = {});

/// What one rank of a run may take of the device: device.memory, or its part of all there is.
int64_t available_bytes(const Recipe& recipe, const Planner& planner);

/// A data file that is not there.
struct MissingData {
  std::string key;   ///< of the recipe, which names it
  std::string file;  ///< for messages: with the folder that a relative path begins at
};
/// Of all splits, or of one.
std::vector<MissingData> missing_data(const Recipe& recipe, std::optional<Split> split = std::nullopt);

/// Throws Error (exit 78) that lists the data files that are not there, of all splits or of one.
void require_data(const Recipe& recipe, std::optional<Split> split = std::nullopt);

/// The budget line by line, and the micro-batch that would fit into `available`. Plans with smaller ones to
/// find out; leaves `recipe` as it was.
std::string memory_advice(Recipe& recipe, const Planner& planner, const Job& job, int64_t available);

/// Throws Error (exit 71) with the budget and the micro-batch that would fit, where it is more than
/// device.memory or what the device has. Plans with smaller micro-batches to find out; leaves `recipe` as it
/// was.
void require_memory(Recipe& recipe, const Planner& planner, const Job& job);

/// How a pipeline of the recipe loads its batches.
Loading loading_of(const Recipe& recipe, const Plan& plan);

/// Training's and validation's batches take turns in one ring where a device reads batches in place. An
/// asynchronous one may still be copying the last of training's.
inline bool shares_ring(const Plan& plan) {
  return !plan.is_async;
}

/// The request for one split of the recipe's data.
SourceRequest source_request(const Recipe& recipe, const Program& program, Split split);

}  // namespace trainer
