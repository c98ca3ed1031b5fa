// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace trainer {

/// A run that Weights & Biases is to have.
struct WandbRun {
  std::filesystem::path directory;
  std::map<std::string, std::string> config;  ///< the recipe's keys and values
  int64_t exit_code = 0;
};

/// Writes the run's metrics.jsonl as W&B's client does without a network, for `wandb sync`:
/// wandb/offline-run-TIME-ID/run-ID.wandb. Written again, the file is replaced, and the ID stays. Returns the
/// directory. Throws Error (exit 65, 74).
std::filesystem::path write_wandb_run(const WandbRun& run);

}  // namespace trainer
