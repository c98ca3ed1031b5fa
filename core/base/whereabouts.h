// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace trainer {

/// What a rank does at the moment.
enum class Doing : uint8_t { starting, awaiting_data, computing, evaluating, saving, ending };
constexpr std::array kDoingNames = {"starting",   "awaiting data", "computing",
                                    "evaluating", "saving",        "ending"};

/// Where a rank is in its run, for messages of the others.
struct Whereabouts {
  int64_t step = 0;  ///< 0: before the first one
  Doing doing = Doing::starting;
  bool waits = false;      ///< for the other ranks
  int64_t moves = 0;       ///< how often it has said so: one that hangs says no more
  int64_t first_step = 0;  ///< of this process, which may take longer; 0: not yet
  bool operator==(const Whereabouts&) const = default;
};

constexpr const char* name_of(Doing doing) {
  return kDoingNames.at(static_cast<size_t>(doing));
}

}  // namespace trainer
