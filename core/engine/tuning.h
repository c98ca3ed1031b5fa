// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

namespace trainer {

/// The fastest of several algorithms, by a text with operation, shapes and threads. A backend with a tuning
/// times the missing ones, and adds the results.
struct Tuning {
  std::map<std::string, std::string> fastest;
  bool keeps_own = false;          ///< results of other runs do not count
  std::vector<std::string> wrong;  ///< candidates whose result differed from the first one's
};

}  // namespace trainer
