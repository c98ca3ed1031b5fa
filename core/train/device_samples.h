// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/data/images/source.h"
#include "core/engine/executable.h"

namespace trainer {

/// All images of both splits in the device's memory, bound to an executable that reads them there. Must
/// outlive its runs.
class DeviceSamples {
 public:
  /// Copies them there; no validation: nullptr. Throws Error: exit 71 if the device has no room, 65 if
  /// a sample cannot be read.
  DeviceSamples(Executable& executable, const DataSource& train, const DataSource* validation);

  /// Device memory that they take.
  static int64_t device_bytes(const Plan& plan);

 private:
  void copy(Executable& executable, const ImageSource& source, TensorId samples, TensorId labels);

  Buffer memory_;
  int64_t used_ = 0;
};

}  // namespace trainer
