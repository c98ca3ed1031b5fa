// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "apps/trainer/arguments.h"
#include "core/data/source.h"
#include "core/recipe/recipe.h"
#include "core/run/trained_files.h"
#include "core/storage/safetensors.h"

namespace trainer {

/// The recipe that a command line names with --config or by a run's directory. Throws Error.
std::shared_ptr<const Recipe> named_recipe(const Arguments& arguments);

/// A recipe with weights of its network.
struct TrainedRecipe {
  std::shared_ptr<const Recipe> recipe;
  TrainedFiles files;
  StoredMetadata about;  ///< of the weights, written by about_network()
};

/// The weights of --weights or run.resume, else the best of a run that is named by its directory, else those
/// of the recipe's own run. If they were trained with other settings than the recipe's, those that
/// --as-trained or --as-written choose. Throws Error: exit 65 without weights, 78 at a difference that no
/// option decides.
TrainedRecipe with_weights(std::shared_ptr<const Recipe> recipe, const Arguments& arguments);

/// Throws Error (exit 78) if these labels belong to other classes than those of the weights, unless
/// --as-written.
void require_trained_classes(const TrainedRecipe& trained, const DataSource& labelled,
                             const Arguments& arguments);

}  // namespace trainer
