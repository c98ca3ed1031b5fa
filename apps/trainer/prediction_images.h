// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/data/source.h"
#include "core/tasks/task.h"

namespace trainer {

/// The folder of `predict --images` for reconstructions: one PNG file for each sample, with the name of the
/// sample's own file. Later samples of the source with the same name get "-2" and so on.
class PredictionImages {
 public:
  /// Makes the folder. `is_shared`: other processes put other samples there. Throws Error: exit 64 if it is
  /// no folder or, unless it is shared, not empty, so that no image is overwritten; 74 if it cannot be made.
  PredictionImages(std::filesystem::path folder, const DataSource& source, bool is_shared);

  /// Writes the image of a sample; returns its path. Throws Error: exit 64 if there is a file, 74 from the
  /// system.
  std::string write(int64_t sample, const PredictedImage& image);

 private:
  std::filesystem::path folder_;
  std::vector<std::string> names_;  ///< of all samples, without the ending
};

}  // namespace trainer
