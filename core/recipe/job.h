// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data/formats.h"
#include "core/data/pipeline.h"
#include "core/engine/plan.h"
#include "core/host/limits.h"
#include "core/recipe/assemble.h"
#include "core/run/checkpoints.h"

namespace trainer {

/// Bytes that a run will hold, by kind. Device kinds are exact; "program" is this process before the run plus
/// what libraries take when they first compute, an estimate.
struct MemoryBudget {
  std::vector<std::pair<std::string, int64_t>> kinds;  ///< on the device
  std::vector<std::pair<std::string, int64_t>> host;   ///< if that is not the device's memory too
  int64_t total() const;                               ///< on the device
};

/// A run known before it starts: its lengths, its program, its plan and its memory.
struct Job {
  RunSpec spec;
  std::optional<SourceInfo> train, validation;  ///< nothing if the files are missing
  LoopSettings settings;                        ///< lengths are 0 if they depend on missing data
  CheckpointSettings checkpoints;
  Program program;
  std::shared_ptr<const Program> all_stages;  ///< of a pipeline: from which `program` was made
  Plan plan;
  MemoryBudget memory;
  bool found_micro_batch = false;  ///< training.micro_batch_size was auto
  ProgramUse use;
  std::vector<double> balanced_weights;  ///< of each class, if loss.class_weights is balanced
};

/// Options and observers for the way from recipe to plan.
struct JobRequest {
  std::vector<std::string> disabled_passes;
  PassObserver observe;
  bool plan = true;      ///< false: only the program is needed; plan and memory stay empty
  bool has_data = true;  ///< false: as if data files were missing, and samples came from the host
  ProgramUse use;
  std::vector<double> balanced_weights = {};     ///< of the run that trained the weights; empty: not known
  std::vector<float> learning_rates = {};        ///< of each update, in place of the recipe's
  std::shared_ptr<const Int8Network> int8 = {};  ///< of the file of weights; null: f32
  std::shared_ptr<const RangeObservation> observation = {};
  std::shared_ptr<const Program> all_stages = {};  ///< of another rank's job with the same micro-batch
};

/// Throws Error: exit 78 if the recipe cannot work, 65 if a data file's header is bad.
Job make_job(const RunSpec& spec, const Planner& planner, const JobRequest& request = {});

/// What planner and passes could not do, and why: a sentence each, for the plan's readers.
std::vector<std::string> remarks_of(const Planner& planner, const Job& job);

/// A missing data file.
struct MissingData {
  std::string key;   ///< of the recipe, which names it
  std::string file;  ///< for messages: with the folder that a relative path begins at
};
/// Of all splits, or of one.
std::vector<MissingData> missing_data(const Recipe& recipe, std::optional<Split> split = std::nullopt);

/// Throws Error (exit 78) with the list of missing data files, of all splits or of one.
void require_data(const Recipe& recipe, std::optional<Split> split = std::nullopt);

/// How a pipeline loads the job's batches.
Loading loading_of(const Job& job);

/// Training's and validation's batches take turns in one ring if a device reads batches in place. An
/// asynchronous one may still be copying the last of training's.
inline bool shares_ring(const Plan& plan) {
  return !plan.is_async;
}

/// Steps of training in a duration; nothing if the data is missing.
std::optional<int64_t> steps_in(const RunSpec& spec, const Duration& duration);

/// The request for one split of the recipe's data.
SourceRequest source_request(const RunSpec& spec, Split split);

}  // namespace trainer
