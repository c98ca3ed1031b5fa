// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trainer {

/// What PyTorch's scripts call a key of recipes.
struct OtherName {
  const char* theirs;
  const char* ours;          ///< the whole path
  const char* example = "";  ///< a value, where it is written otherwise than theirs
};

/// The row of a key that no recipe has, or null.
const OtherName* find_other_name(const std::string& key);

}  // namespace trainer
