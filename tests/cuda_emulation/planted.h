// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trainer::emulation {

/// A kernel with one mistake that the emulation has to find.
struct PlantedBug {
  std::string name;
  std::string kind;  ///< of the fault that it has to report
  bool names_line;   ///< of the access, which the fault has to report too
  /// Runs it once on this many floats of device memory, the first half of them set.
  void (*run)(float* memory, int count);
};

/// The last one has no mistake, and no kind.
std::vector<PlantedBug> planted_bugs();

}  // namespace trainer::emulation
