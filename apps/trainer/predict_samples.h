// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/trainer/arguments.h"
#include "apps/trainer/input_part.h"
#include "apps/trainer/trained_recipe.h"
#include "core/data/images/image_files.h"
#include "core/data/source.h"
#include "core/tasks/task.h"

namespace trainer {

/// The samples that `predict` reads, and the known properties of its classes.
struct PredictSamples {
  std::unique_ptr<DataSource> source;
  std::vector<std::string> class_names;    ///< may be empty, or shorter than the network's classes
  bool is_labelled = false;                ///< by the recipe's data
  std::vector<int32_t> folder_labels;      ///< of files that are all in folders of classes; else empty
  std::string unlabelled;                  ///< otherwise the first file that is in none, if that matters
  PartRange part = {};                     ///< of the source: those to predict
  ArrivingImageFiles* arriving = nullptr;  ///< the source, if the paths come through the standard input
  int64_t answered = 0;                    ///< paths that came before those of the source

  bool has_labels() const { return is_labelled || !folder_labels.empty(); }
  /// All samples so far.
  int64_t count() const { return answered + part.count; }
  /// The next paths that have come, for a batch of `rows` rows.
  void take(std::vector<std::string> paths, int64_t rows);
};

/// Throws Error (exit 78) if image files cannot be the network's input.
void check_channels(const Recipe& recipe);

/// The images of the command line, those whose paths will come, or a split of the recipe's data. Throws
/// Error: exit 64 if there is no such split, 65 and 78 as opening data does, 78 for labels of other classes
/// than the weights'.
PredictSamples open_samples(const TrainedRecipe& trained, const Task& task, const Arguments& arguments);

}  // namespace trainer
