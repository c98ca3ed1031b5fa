// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cpu/winograd/kernels.h"

namespace trainer::cpu::winograd {

/// The kernels for this processor, the best first. Only those with instructions that oneDNN uses here, so
/// that both store activations alike and the environment variable ONEDNN_MAX_CPU_ISA restricts both.
std::vector<const Kernels*> usable_kernels(Storage storage);

inline const Kernels& best_kernels(Storage storage) {
  return *usable_kernels(storage).front();
}

}  // namespace trainer::cpu::winograd
