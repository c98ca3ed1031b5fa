// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/config/file_path.h"

namespace trainer {

/// The files that hold a trained network.
struct TrainedFiles {
  std::filesystem::path model;
  std::filesystem::path averages;    ///< of the weights; empty if there are none
  std::filesystem::path run;         ///< the run's directory; empty if it is not known
  std::vector<std::string> damaged;  ///< newer checkpoints that were skipped, and why
};

/// `path` is a .safetensors file, or the directory of a checkpoint or of a run: the run's final weights are
/// taken, else those of its newest checkpoint that is whole. Throws Error (exit 65) if there are none.
TrainedFiles find_trained(const FilePath& given);

/// The weights of a run's best evaluation or, if it has kept none, those of find_trained.
TrainedFiles best_trained(const std::filesystem::path& run);

}  // namespace trainer
