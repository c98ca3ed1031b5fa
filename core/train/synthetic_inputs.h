// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/engine/input_feed.h"

namespace trainer {

/// Bounds of the values of made-up inputs.
struct SyntheticBounds {
  int64_t tokens = 1;   ///< ids are below it
  int64_t classes = 1;  ///< labels are below it
  float weight = 1;     ///< of each sample
};

/// Inputs of a program with random values, for measurements without data. A batch stays the same.
class SyntheticInputs {
 public:
  /// Of all inputs of the executable's program. Throws Error (exit 71) without memory.
  SyntheticInputs(Executable& executable, const SyntheticBounds& bounds);

  /// Brings the batch to the device, calls `run`, which may read it, and releases the batch.
  void with_batch(const std::function<void()>& run);

 private:
  InputFeed feed_;
  std::vector<Buffer> memory_;
  std::vector<InputData> batch_;
};

}  // namespace trainer
