// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// The beginning of the keys of choices that are timed even without runtime.autotune.
constexpr std::string_view kTimedAlways = "timed always, ";

/// The fastest of several algorithms, by a text with operation, shapes and threads. A backend with a tuning
/// times the missing ones, and adds the results.
struct Tuning {
  std::map<std::string, std::string> fastest;
  bool times_all = true;           ///< as runtime.autotune asks; otherwise only what rules misjudge
  bool keeps_own = false;          ///< results of other runs do not count
  std::vector<std::string> wrong;  ///< candidates whose result differed from the first one's
};

/// What remains of a tuning without runtime.autotune.
inline Tuning timed_always(Tuning tuning) {
  std::erase_if(tuning.fastest, [](const auto& choice) { return !choice.first.starts_with(kTimedAlways); });
  tuning.times_all = false;
  return tuning;
}

}  // namespace trainer
