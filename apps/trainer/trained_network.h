// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "core/engine/backend.h"
#include "core/engine/tuning.h"
#include "core/recipe/job.h"
#include "core/run/trained_files.h"
#include "core/session/start.h"

namespace trainer {

/// The rows of a network's batches: those of the run's evaluation, but exactly or at most these.
struct BatchRows {
  std::optional<int64_t> exactly = {}, at_most = {};
};

/// A recipe's network with the weights of these files, on its device, ready to be run forward.
class TrainedNetwork {
 public:
  /// In 8 bits if the weights are. With an observation, products are observed in f32. `local_rank`: the
  /// number of this process among those on this host; it chooses the GPU. Throws Error.
  TrainedNetwork(const RunSpec& given, TrainedFiles files, Purpose purpose, const BatchRows& rows = {},
                 std::shared_ptr<const RangeObservation> observation = nullptr, int64_t local_rank = 0);
  /// One that generates (core/step/generation.h).
  TrainedNetwork(const RunSpec& spec, TrainedFiles files, const GenerationSize& size, int64_t local_rank);
  TrainedNetwork(const TrainedNetwork&) = delete;
  TrainedNetwork& operator=(const TrainedNetwork&) = delete;

  const TrainedFiles& files() const { return files_; }
  Device& device() { return *backend_.device; }
  const Job& job() const { return *job_; }
  Executable& executable() { return *executable_; }

 private:
  /// Opens the device that suits the weights; returns the settings that the run was saved with.
  Start open(const RunSpec& spec, int64_t local_rank = 0);
  /// The specification with the micro-batch to compute.
  RunSpec sized(const RunSpec& given, const Start& start, const BatchRows& rows) const;
  /// Plans, takes memory and loads the weights.
  void load(const RunSpec& spec, JobRequest request);

  TrainedFiles files_;
  Tuning tuning_;
  Backend backend_;
  std::optional<Job> job_;
  std::unique_ptr<Executable> executable_;
};

}  // namespace trainer
