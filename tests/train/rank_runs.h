// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/mesh.h"
#include "core/base/precision.h"
#include "core/passes/pass.h"
#include "core/step/pipeline_schedule.h"

namespace trainer::test {

constexpr int64_t kTrainedSteps = 6;

/// The division of a step's samples, and the settings of passes.
struct Division {
  int64_t ranks = 1, micro_batches = 1, rows = 4;  ///< micro-batches of each rank
  int64_t rest = 0;                                ///< ranks, the first ones, that have one more
  int64_t bucket_bytes = 1 << 10;
  bool sync_batch_norm = false, shard_optimizer = false;
  int64_t shards = 1;  ///< ranks that share a copy of the parameters
  int64_t tensor = 1;  ///< ranks that share operations
  int64_t stages = 1;  ///< ranks with layers of their own
  PipelineSchedule::Kind schedule = PipelineSchedule::Kind::one_forward_one_backward;
  int64_t chunks = 1;  ///< stages of each rank
  uint64_t seed = 1;
  Precision precision = Precision::fp32;
  Recompute recompute = {};
  std::optional<double> ema_decay = {};
  std::vector<int32_t> skip_steps = {};  ///< pairs (first, last); only with guards
  bool counts_confusion = true;
  Mesh mesh() const {
    return {
        .replicas = ranks / shards / tensor / stages, .shards = shards, .tensor = tensor, .stages = stages};
  }
  /// A run of a pipeline's program computes all micro-batches.
  int64_t rows_of_run() const { return stages > 1 ? micro_batches * rows : rows; }
  int64_t runs(int64_t rank = 0) const {
    return stages > 1 ? 1 : micro_batches + (mesh().coordinate(Axis::data, rank) < rest ? 1 : 0);
  }
  /// Micro-batches by position along Axis::data.
  std::vector<int64_t> shares() const {
    std::vector<int64_t> counts(static_cast<size_t>(mesh().size(Axis::data)), micro_batches);
    for (int64_t i = 0; i < rest; ++i) ++counts[static_cast<size_t>(i)];
    return counts;
  }
  int64_t global_batch() const { return (mesh().size(Axis::data) * micro_batches + rest) * rows; }
};

/// A rank's state after kTrainedSteps.
struct Trained {
  std::map<std::string, std::vector<double>> tensors;  ///< all persistent values that are equal on all ranks;
                                                       ///< on rank 0 with those of other ranks
  std::vector<double> losses, norms;
  std::map<std::string, double> evaluation;
  std::vector<int64_t> confusion;  ///< counts of the matrix
  int64_t persistent_bytes = 0;    ///< memory held for them
  /// Bytes that the steps have exchanged along each axis, and those that the plan has.
  std::map<Axis, int64_t> exchanged = {}, planned = {};
  bool operator==(const Trained& other) const {
    return tensors == other.tensors && losses == other.losses && norms == other.norms &&
           evaluation == other.evaluation && confusion == other.confusion;
  }
};

/// Trains a network for images of (3, 9, 9) on the CPU, each rank in a thread of its own with one thread.
std::vector<Trained> train_all(const char* network, const Division& division, const char* optimizer,
                               bool guards = false);

/// Largest difference between two runs' tensors, relative to the tensor's largest value. REQUIREs that both
/// have the same tensors.
double distance(const Trained& a, const Trained& b);

/// Compares several ranks, of which rank 0 has gathered all parts, with one process. CHECKs that all ranks
/// have the same results, and that these differ by no more than rounding: relative to each number by `most`,
/// norms and results of an evaluation by 10 times as much, weights by 100 times.
void check_close(const Trained& expected, const std::vector<Trained>& found, double most);

/// Whether this processor computes in bf16, or can emulate it.
bool can_train_in_bf16();

}  // namespace trainer::test
