// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trainer {

/// The name of a recipe's key in PyTorch's scripts.
struct OtherName {
  const char* theirs;
  const char* ours;          ///< the whole path
  const char* example = "";  ///< a value, if it is written differently there
};

/// The row of a key that no recipe has, or null.
const OtherName* find_other_name(const std::string& key);

}  // namespace trainer
