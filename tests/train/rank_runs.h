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

namespace trainer::test {

constexpr int64_t kTrainedSteps = 6;

/// The division of a step's samples, and the settings of passes.
struct Division {
  int64_t ranks = 1, micro_batches = 1, rows = 4;  ///< micro-batches of each rank
  int64_t bucket_bytes = 1 << 10;
  bool sync_batch_norm = false, shard_optimizer = false;
  int64_t shards = 1;  ///< ranks that share a copy of the parameters
  int64_t tensor = 1;  ///< ranks that share operations
  uint64_t seed = 1;
  Precision precision = Precision::fp32;
  Recompute recompute = {};
  std::optional<double> ema_decay = {};
  std::vector<int32_t> skip_steps = {};  ///< pairs (first, last); only with guards
  bool counts_confusion = true;
  Mesh mesh() const { return {.replicas = ranks / shards / tensor, .shards = shards, .tensor = tensor}; }
  int64_t global_batch() const { return mesh().size(Axis::data) * micro_batches * rows; }
};

/// A rank's state after kTrainedSteps.
struct Trained {
  std::map<std::string, std::vector<double>> tensors;  ///< all persistent values that are equal on all ranks;
                                                       ///< on rank 0 with those of other ranks
  std::vector<double> losses, norms;
  std::map<std::string, double> evaluation;
  std::vector<int64_t> confusion;  ///< counts of the matrix
  int64_t persistent_bytes = 0;    ///< memory held for them
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

/// Whether this processor computes in bf16, or can emulate it.
bool can_train_in_bf16();

}  // namespace trainer::test
