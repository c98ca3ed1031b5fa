// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/trainer/arguments.h"
#include "core/base/json.h"
#include "core/engine/device_description.h"
#include "core/engine/tuning.h"
#include "core/recipe/step_prediction.h"

namespace trainer {

/// A way to divide a run among ranks, as parallelism has it.
struct Division {
  int64_t data = 1, tensor = 1, pipeline = 1;
  std::string shards = "false";  ///< parallelism.shard_parameters: "true", "false" or a number
  bool shards_optimizer = false;
  int64_t ranks() const { return data * tensor * pipeline; }
};
/// "data 8 x tensor 2, sharded"
std::string to_string(const Division& division);

/// A step on a number of ranks.
struct ScalingRow {
  Division division;
  std::string problem;  ///< why these ranks cannot train so; the rest is then unknown
  int64_t global_batch = 0, micro_batch = 0;
  StepPrediction step;
  int64_t unmeasured = 0;            ///< operations that the profile lacks, which take its mean time a byte
  double slowest = 0;                ///< seconds that all wait for the slowest rank
  std::optional<int64_t> available;  ///< bytes of a rank
  std::optional<double> efficiency;  ///< speed of a rank over that of one alone
  std::optional<double> watts;       ///< of all nodes

  bool fits() const { return !available || step.memory <= *available; }
  double seconds() const { return step.slowest.seconds + slowest; }
  double samples_per_second() const { return static_cast<double>(global_batch) / seconds(); }
  std::optional<double> joules_per_sample() const;
};
Json to_json(const ScalingRow& row);

/// Predicts a recipe's step on ranks of a machine.
class Scaling {
 public:
  /// Throws Error: exit 78 for the recipe, the machine, and if no rates of the device are known; 64 and 65
  /// for a measured run.
  explicit Scaling(const Arguments& arguments);

  /// With the recipe's own division, the rest along data.
  ScalingRow row(int64_t ranks) const;
  /// All ways to divide them, those that fit first, the fastest of these first.
  std::vector<ScalingRow> splits(int64_t ranks) const;

  const MachineDescription& machine() const { return machine_; }
  bool is_measured() const { return run_ != nullptr; }
  /// The standard deviation of a rank's step as a share of its time, and whether a run has measured it.
  double spread() const;
  bool has_measured_spread() const { return !draws_.empty(); }

 private:
  ScalingRow row_of(const Division& division) const;
  void predict(ScalingRow& row) const;
  std::shared_ptr<const Recipe> recipe_for(const Division& division) const;
  void calibrate();
  double slowest_share(int64_t ranks) const;

  const Arguments& arguments_;
  MachineDescription machine_;
  std::optional<DeviceDescription> gpu_;  ///< nothing: a processor, or a device without description
  std::shared_ptr<const Recipe> recipe_;
  std::shared_ptr<const MeasuredNodes> run_;
  mutable Tuning tuning_ = timed_always({});  ///< of that run, and of what plans have timed since
  std::vector<double> draws_;                 ///< a step's times as shares of their mean
  NodeTimer timer_;
  std::optional<double> alone_;  ///< samples a second of one rank
};

}  // namespace trainer
