// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/backend.h"

namespace trainer {

/// The CPU for tests of bf16 on any processor. Operations that oneDNN cannot do in bf16 here, above all
/// products, are computed in f32 between conversions, like the instructions do: products of bf16, sums in
/// f32, and one rounding. All else runs unchanged. Users get none of this: the planner of the CPU refuses
/// bf16 here.
Backend make_bf16_cpu_backend(int threads);

}  // namespace trainer
