// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "apps/trainer/command_help.h"
#include "core/recipe/keys.h"

namespace trainer {

/// A completion of the last word of a command line.
struct Completions {
  enum class Paths { none, files, directories };
  struct Word {
    std::string text;  ///< ends with '.' or '=' if more of the word follows
    std::string help;
  };
  Paths paths = Paths::none;  ///< also these; of section.key=value after the '='
  std::vector<Word> words;
};

/// `words` follow the program's name; the last one, which may be empty, is completed.
Completions complete(const CommandHelp& program, const std::vector<RecipeKey>& keys,
                     const std::vector<std::string>& words);

}  // namespace trainer
