// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/recipe/recipe.h"
#include "core/storage/safetensors.h"

namespace trainer {

/// What somebody needs besides the weights to use a network, as metadata of their file, each a text of JSON:
/// "classes", the names, where the data has some; "input", the shape of a sample; "eval_transform", the
/// transforms of data.eval_transform with the mean and std of normalize.
StoredMetadata about_network(const Recipe& recipe, const std::vector<std::string>& class_names);

/// The names that about_network has put there; none if there are none.
std::vector<std::string> class_names_in(const StoredMetadata& about);

}  // namespace trainer
