// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "core/graph/program.h"
#include "core/recipe/recipe.h"

namespace trainer {

/// The shape that a tensor is to have.
using ShapeOf = std::function<Shape(TensorId)>;

/// The text of a recipe whose network's tensors have the shapes `after`: the given recipe with its templates
/// written out and other values of keys on which these shapes depend (Layer::keys_for). `entry` of `program`
/// is the given network. Its run begins with the weights in the file `weights`, relative to the recipe's
/// folder.
std::string smaller_recipe(const Recipe& recipe, const Program& program, const Entry& entry,
                           const ShapeOf& after, const std::string& weights);

}  // namespace trainer
