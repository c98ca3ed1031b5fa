// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/engine/device_rates.h"
#include "core/engine/plan.h"

namespace trainer {

/// The shares of a device's rates that kernels reach, and the fixed cost of a kernel: one set for all devices
/// and networks. scripts/gpu/published.py compares it with published results.
struct Efficiency {
  double bytes = 0.68;
  double flops = 0.60;
  double seconds_per_kernel = 1.5e-6;  ///< from the end of one to the start of the next in a CUDA graph
};
constexpr Efficiency kEfficiency;

/// What one run of a node takes on any device: bytes stored of its tensors, each read or written once, with
/// its Choice's additional ones, and FLOPs.
struct NodeWork {
  double bytes = 0, flops = 0;
};
NodeWork work_of(const Plan& plan, const PlannedNode& planned);

/// The cost of one or several runs of a node. If a node runs on tensor cores, so do all of its FLOPs.
struct Cost {
  int64_t kernels = 0;
  double bytes = 0, flops = 0;
  // Predicted seconds: of nodes that memory limits, of those that arithmetic limits, and of starting kernels.
  double moving = 0, computing = 0, starting = 0;
  double seconds() const { return moving + computing + starting; }
  /// What takes most of the time: "bytes", "arithmetic" or "starts".
  const char* limit() const;
  void add(const Cost& other, double times = 1);
};

/// The cost of a node on this rank. Its time is the longer of memory's and arithmetic's, plus that of
/// starting its kernels.
Cost cost_of(const Plan& plan, const PlannedNode& planned, const DeviceRates& rates);

/// Seconds that a node's arithmetic takes at the device's full rate for its type.
double arithmetic_seconds(const Plan& plan, const PlannedNode& planned, const DeviceRates& rates);

/// Of one run of an entry.
Cost cost_of(const Plan& plan, const PlannedEntry& entry, const DeviceRates& rates);

}  // namespace trainer
