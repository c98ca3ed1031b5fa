// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "core/data/images/found_data.h"
#include "core/data/images/statistics.h"

namespace trainer {

/// The facts that a first recipe is made from.
struct Starter {
  FoundData data;                         ///< paths as the recipe should write them
  SplitStatistics statistics;             ///< of the training samples, or of some
  int64_t samples = 0;                    ///< all training samples, those that are set aside included
  int64_t classes = 0;                    ///< not of unlabelled images
  bool has_label_sets = false;            ///< an image has any number of labels
  std::vector<int64_t> mask_values = {};  ///< see data.masks.values
  Shape shape;                            ///< of a sample; see is_fixed
  SkippedFiles skipped;                   ///< beside the samples of both splits
};

/// A commented recipe for the data: a convolutional network, a U-Net for masks, or an autoencoder of images
/// without labels, and a length of training that fit its sizes.
std::string starter_recipe(const Starter& starter);

}  // namespace trainer
