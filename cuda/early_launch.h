// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace trainer::cuda {

inline std::atomic<bool>& early_starts() {
  static std::atomic<bool> may{true};
  return may;
}

/// Whether a kernel may be started while those before it still run (programmatic dependent launch, from
/// compute capability 9.0 on). A process uses one GPU, so the switch is the process's.
inline bool starts_early() {
  return early_starts();
}
inline void set_starts_early(bool may) {
  early_starts() = may;
}

/// Reads TRAINER_PDL: 0 turns early starts off, 1 or nothing leaves them on. Throws Error (exit 64) for
/// anything else.
void read_early_launch();

}  // namespace trainer::cuda
