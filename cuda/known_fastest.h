// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cuda/fastest.h"
#include "cuda/handler.h"

namespace trainer::cuda {

/// With runtime.autotune: the algorithm that was the fastest for what `key` names, found by this run or,
/// if that may count, by another one of the user's on such a machine.
std::optional<std::string> known_fastest(const Gpu& gpu, const std::string& key);

/// Notes it for this run.
void keep_fastest(const Gpu& gpu, const std::string& key, const std::string& algorithm);
/// And for other runs, after it was timed.
void share_fastest(const Gpu& gpu, const std::string& key, const std::string& algorithm);

/// Which of the candidates, called by their texts, is the fastest: the known one, or else that of the least
/// `time(i)`, which is then shared.
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
