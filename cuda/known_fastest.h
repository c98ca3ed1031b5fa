// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cuda/fastest.h"
#include "cuda/handler.h"

namespace trainer::cuda {

/// With runtime.autotune: the fastest algorithm for `key`, found by this run or,
/// if that may count, by another of the user's runs on an equal machine.
std::optional<std::string> known_fastest(const Gpu& gpu, const std::string& key);

/// Records it for this run.
void keep_fastest(const Gpu& gpu, const std::string& key, const std::string& algorithm);
/// And for other runs, after it was timed.
void share_fastest(const Gpu& gpu, const std::string& key, const std::string& algorithm);

/// The fastest candidate, by its text: the known one, or else that of the least `time(i)`, which is then
/// shared.
template <class Time>
size_t choose_fastest(const Gpu& gpu, const std::string& key, const std::vector<std::string>& candidates,
                      Time time) {
  if (const std::optional<std::string> known = known_fastest(gpu, key)) {
    const auto found = std::find(candidates.begin(), candidates.end(), *known);
    if (found != candidates.end()) {
      keep_fastest(gpu, key, *known);
      return static_cast<size_t>(found - candidates.begin());
    }
  }
  const size_t best = fastest_of(candidates.size(), time);
  share_fastest(gpu, key, candidates[best]);
  return best;
}

}  // namespace trainer::cuda
