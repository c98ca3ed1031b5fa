// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trainer {

/// A device's peak rates according to its maker, per second: bytes from and to its memory, and floating point
/// operations of products by the type of their factors. Those of tf32, f16 and bf16 are the tensor cores',
/// without sparsity.
struct DeviceRates {
  double bytes = 0;
  double f32 = 0, tf32 = 0, f16 = 0, bf16 = 0;
};

}  // namespace trainer
