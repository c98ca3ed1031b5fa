// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

namespace trainer {

/// Which of several algorithms was the fastest, by a text that names operation, shapes and threads. A backend
/// with a tuning times what is missing in it, and adds the result.
struct Tuning {
  std::map<std::string, std::string> fastest;
  bool keeps_own = false;  ///< what other runs found does not count
};

}  // namespace trainer
