// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <unordered_map>

#include "core/tasks/task.h"

namespace trainer {

/// The folder of `predict --images` for reconstructions: one PNG file for each sample, with the name of the
/// sample's own file.
class PredictionImages {
 public:
  /// Makes the folder. Throws Error: exit 64 if it is no empty folder, so that no image is overwritten, 74 if
  /// it cannot be made.
  explicit PredictionImages(std::filesystem::path folder);

  /// Writes an image; returns its path. Later samples of the same name get "-2" and so on.
  std::string write(const std::string& sample_file, int64_t number, const PredictedImage& image);

 private:
  std::string name_for(const std::string& sample_file, int64_t number);

  std::filesystem::path folder_;
  std::unordered_map<std::string, int64_t> names_;  ///< taken, and how many samples have had them
};

}  // namespace trainer
