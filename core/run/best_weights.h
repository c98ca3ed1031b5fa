// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/train/loop_state.h"

namespace trainer {

/// The file in a run's directory with the weights of its best evaluation, beside the final ones.
constexpr const char* kBestFile = "model_best.safetensors";

/// The metadata of that file with the evaluation: metric, value and step.
constexpr const char* kBestMetadata = "best";

/// Makes that file of `run` hold the weights that `best` was measured with: those of its checkpoint, averaged
/// if the metric is that of averages. Its metadata has the evaluation. A file that is of this evaluation
/// already stays. If `best` has no step, the file is removed. Throws Error: exit
/// 74 if it cannot be written, and as verify_file for the checkpoint; the earlier file then stays.
void keep_best_weights(const std::filesystem::path& run, const BestEvaluation& best);

/// Makes kModelFile of a finished `run` hold the weights of the checkpoint of its last step. With `averages`,
/// kAveragesFile has the same tensors, averaged where they have an average. Throws Error as above, and exit
/// 74 if there is no such checkpoint.
void keep_final_weights(const std::filesystem::path& run, int64_t step, bool averages);

}  // namespace trainer
