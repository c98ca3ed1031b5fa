// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "core/data/fingerprint.h"
#include "core/storage/safetensors.h"
#include "core/train/loop_state.h"

namespace trainer {

/// A checkpoint's state.json: everything that a run needs to continue, except its tensors.
struct RunState {
  LoopState loop;
  double epoch = 0;
  int64_t samples = 0;      ///< consumed so far: the position in the order of the data
  BestEvaluation best;      ///< its checkpoint is kept; without a metric if an earlier version wrote it
  std::string mathematics;  ///< the run's identity
  std::string recipe;       ///< resolved, as YAML
  int64_t micro_batch_size = 0;
  std::map<std::string, std::string> facts;       ///< Planner::facts and versions
  Fingerprint data;                               ///< of the training samples; empty in older checkpoints
  std::string teacher;                            ///< see teacher_checksum; empty without one
  StoredMetadata about;                           ///< see about_network; also with its weights
  std::map<std::string, std::string> algorithms;  ///< that were timed as the fastest
  std::map<std::string, std::string> wall;        ///< time and place of the save; does not affect results
};

std::string to_json(const RunState& state);
/// Throws Error (exit 65) with `file` and the reason.
RunState parse_run_state(std::string_view text, const std::string& file);

}  // namespace trainer
