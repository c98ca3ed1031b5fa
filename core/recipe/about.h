// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/recipe/recipe.h"
#include "core/storage/safetensors.h"

namespace trainer {

/// Items of the metadata of weights, each JSON text.
namespace about_name {
constexpr const char* kClasses = "classes";           ///< their names, if the data has some
constexpr const char* kInput = "input";               ///< shape of a sample
constexpr const char* kTransform = "eval_transform";  ///< data.eval_transform with all its values
constexpr const char* kTokenizer = "tokenizer";       ///< of tokens, if it is known
constexpr const char* kTable = "table";               ///< how rows of tables are prepared
}  // namespace about_name

/// Information besides the weights that is needed to use a network. It is stored as metadata of their file.
StoredMetadata about_network(const Recipe& recipe, const std::vector<std::string>& class_names,
                             const std::string& preparation = "");

/// From now on the recipe's rows are prepared as in the training of these weights, if they say how.
void use_preparation(const Recipe& recipe, const StoredMetadata& about);

/// Adds the weights of `class_weights: balanced`, which evaluation uses too; none if there are none.
void add_class_weights(StoredMetadata& about, const std::vector<double>& weights);
std::vector<double> class_weights_in(const StoredMetadata& about);

/// The names stored by about_network; none if there are none.
std::vector<std::string> class_names_in(const StoredMetadata& about);

}  // namespace trainer
