// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/backend.h"

namespace trainer {

/// The CPU as a test of bf16 wants it, on any processor. What oneDNN cannot do in bf16 here, above all
/// products, it computes in f32 between conversions, which is what the instructions do: products of bf16,
/// sums in f32, and one rounding. All else runs as it is. Users get none of this: the planner of the CPU
/// refuses bf16 here.
Backend make_bf16_cpu_backend(int threads);

}  // namespace trainer
