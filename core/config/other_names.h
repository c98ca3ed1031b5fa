// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trainer {

/// The name of a recipe's key in scripts for PyTorch and its trainers.
struct OtherName {
  const char* theirs;
  const char* ours;          ///< the whole path
  const char* example = "";  ///< a value, if it is written differently there
  const char* section = "";  ///< the only one in which the name means this; "": all
};

/// The row of a key that this section, or no part of a recipe, has; or null.
const OtherName* find_other_name(const std::string& key, const std::string& section = "");

/// The candidate that a value probably means: another program's name for it, else one spelt nearly alike.
std::optional<std::string> meant(const std::string& value, const std::vector<std::string>& candidates);

}  // namespace trainer
