// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/data/source.h"
#include "core/recipe/recipe.h"

namespace trainer {

/// Files that a command reads: the recipe's, those of its data and of its tokenizer.
std::vector<std::filesystem::path> input_files(const Recipe& recipe);

/// Files that a command reads, as far as `output` may be one of them: those above, and samples of
/// `source`.
std::vector<std::filesystem::path> input_files(const Recipe& recipe, const DataSource& source,
                                               const std::string& output);

}  // namespace trainer
