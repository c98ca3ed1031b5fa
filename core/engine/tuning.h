// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

namespace trainer {

/// Which of several algorithms was the fastest, by a text that names operation, shapes and threads. A backend
/// that is given one times what it does not find in it, and adds what it has found.
struct Tuning {
  std::map<std::string, std::string> fastest;
};

}  // namespace trainer
