// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "apps/trainer/predicted_sample.h"
#include "core/data/images/source.h"
#include "core/data/images/transform.h"
#include "core/recipe/run_spec.h"

namespace trainer {

/// Writes what a network with a class for each pixel predicts of images: a mask in colours (a palette PNG,
/// whose values are the classes) and an overlay of the image, both in the image's own size.
class MaskImages {
 public:
  /// `words` are the images and folders of the command line, which the files' names begin after. Throws
  /// Error: exit 78 for too many classes, 64 if files would replace one another, or the data.
  MaskImages(const std::filesystem::path& folder, const RunSpec& run, const DataSource& source,
             const std::vector<std::string>& words);

  /// Of a sample and the network's output for it, (C, H, W); adds the files' paths to its fields. Throws
  /// Error: exit 65 for an image that can no longer be read, 74 from the system.
  void write(PredictedSample& sample, std::span<const float> logits);

 private:
  std::filesystem::path target(int64_t sample, const char* ending) const;

  std::filesystem::path folder_;
  const ImageSource& source_;
  TransformChain chain_;
  Shape output_;                    // (N, C, H, W)
  std::vector<std::string> names_;  // of the samples, without endings
  Image image_;
};

}  // namespace trainer
