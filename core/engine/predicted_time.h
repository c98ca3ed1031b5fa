// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/engine/device_rates.h"
#include "core/engine/plan.h"

namespace trainer {

/// The shares of a device's rates that kernels reach, and what each kernel costs beside: one set for all
/// devices and networks. scripts/gpu/published.py holds it against what others have published.
struct Efficiency {
  double bytes = 0.68;
  double flops = 0.60;
  double seconds_per_kernel = 1.5e-6;  ///< from the end of one to the start of the next in a CUDA graph
};
constexpr Efficiency kEfficiency;

/// What one run of a node, or several, costs. If a node runs on tensor cores, so do all of its FLOPs.
struct Cost {
  int64_t kernels = 0;
  double bytes = 0, flops = 0;
  double seconds = 0;  ///< predicted
  void add(const Cost& other, double times = 1);
};

/// Of a node that runs on this rank: the stored bytes of its tensors, each read or written once, and what its
/// Choice says beside. Its time is the longer of memory's and arithmetic's, and that of starting its kernels.
Cost cost_of(const Plan& plan, const PlannedNode& planned, const DeviceRates& rates);

/// Of one run of an entry.
Cost cost_of(const Plan& plan, const PlannedEntry& entry, const DeviceRates& rates);

}  // namespace trainer
