// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <tuple>
#include <vector>

#include "core/graph/program.h"

namespace trainer {

// The order in which the ranks along a pipeline work. Stage s of the network is on rank s % ranks.

/// GPipe (Huang et al., NeurIPS 2019): all forward parts, then all backward parts. 1F1B (Narayanan et al.,
/// "PipeDream", SOSP 2019): as few forward parts as possible before their backward parts. Interleaved
/// (Narayanan et al., "Megatron-LM", SC 2021): 1F1B with several stages on each rank.
struct PipelineSchedule {
  enum class Kind { one_forward_one_backward, gpipe, interleaved };
  Kind kind = Kind::one_forward_one_backward;
  int64_t ranks = 1;
  int64_t chunks = 1;  ///< stages of each rank; more than one only if interleaved
  int64_t micro_batches = 1;
  bool operator==(const PipelineSchedule&) const = default;

  int64_t stages() const { return ranks * chunks; }
  int64_t rank_of(int64_t stage) const { return stage % ranks; }
};

/// One stage's forward or backward part of one micro-batch.
struct Unit {
  int64_t stage = 0;
  bool is_backward = false;
  int64_t micro_batch = 0;
  bool operator==(const Unit&) const = default;
  bool operator<(const Unit& other) const {
    return std::tie(stage, is_backward, micro_batch) <
           std::tie(other.stage, other.is_backward, other.micro_batch);
  }
};

/// A rank's units of a training step, or of an evaluation, which has no backward part, in order. Interleaved,
/// the micro-batches are a multiple of the ranks.
std::vector<Unit> units_of(const PipelineSchedule& schedule, int64_t rank);
std::vector<Unit> forward_units_of(const PipelineSchedule& schedule, int64_t rank);

/// What a rank does next: a unit, or one end of the message of a route in a micro-batch.
struct StageAction {
  enum class Kind { compute, send, receive };
  Kind kind = Kind::compute;
  Unit unit = {};    ///< to compute
  size_t route = 0;  ///< to send or receive
  int64_t micro_batch = 0;
  bool operator==(const StageAction&) const = default;
};

/// When each rank of a pipeline does what.
struct Timeline {
  struct Span {
    Unit unit;
    double begin = 0, end = 0;
  };
  std::vector<std::vector<Span>> spans;           ///< by rank
  std::vector<std::vector<StageAction>> actions;  ///< by rank

  double seconds() const;
  /// The share of all ranks' time in which they compute nothing.
  double idle_share() const;
  /// The most micro-batches whose forward part a rank has computed, and not yet the backward part: of all its
  /// stages together.
  int64_t most_in_flight(int64_t rank) const;
};

/// Simulates the pipeline. Each rank computes its units in order, each unit as soon as its inputs have
/// arrived; a message is sent when the unit that makes it ends. All units and messages are then put in one
/// order, by time, and each rank's actions follow that order. This rules out deadlock, even with synchronous
/// sends and one action at a time. `seconds` of a unit must be positive; any unit of time will do. Throws
/// std::logic_error if the given order of units deadlocks.
Timeline timeline(const PipelineSchedule& schedule, const std::vector<std::vector<Unit>>& units,
                  const std::vector<Route>& routes, const std::function<double(const Unit&)>& seconds);

/// A backward part takes twice the time of a forward part.
double usual_seconds(const Unit& unit);

/// Executes all ranks' actions with synchronous sends. Throws std::logic_error with the first blocked action
/// if they deadlock.
void require_end(const PipelineSchedule& schedule, const std::vector<Route>& routes,
                 const std::vector<std::vector<StageAction>>& actions);

}  // namespace trainer
