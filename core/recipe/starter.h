// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/data/images/found_data.h"
#include "core/data/images/statistics.h"

namespace trainer {

/// A network to begin with, in place of one that fits the data.
struct StarterNetwork {
  std::string name;  ///< of one that comes with the program, or its file as the recipe should write it
  Shape shape;       ///< of a sample, (C, H, W)
  std::filesystem::path weights;  ///< to begin with, likewise; empty: none
};

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
  std::optional<StarterNetwork> network = std::nullopt;
};

/// A commented recipe for the data: the given network, or a convolutional one, a U-Net for masks or an
/// autoencoder of images without labels, and a length of training, that fit its sizes.
std::string starter_recipe(const Starter& starter);

}  // namespace trainer
