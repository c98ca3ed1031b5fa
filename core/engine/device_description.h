// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/engine/device_rates.h"

namespace trainer {

/// A GPU's description, so that a run can be planned without it.
struct DeviceDescription {
  std::string name;            ///< "NVIDIA H200"
  int compute_capability = 0;  ///< 90 for 9.0
  int64_t memory_bytes = 0;    ///< all of it, driver's share included
  std::string properties;      ///< JSON, as cuDNN writes and reads it
  std::optional<DeviceRates> rates = std::nullopt;
  std::optional<double> power_watts = std::nullopt;  ///< its power limit
};

/// Reads `{"deviceVer": 900, "deviceName": …}`: every property that cuDNN needs. Optional are `rates`,
/// without which no times are predicted, `powerLimitWatts`, and `sources`, the origin of all values. Throws
/// Error (exit 65) with `file` and the missing or wrong value.
DeviceDescription read_device_description(const std::string& text, const std::string& file);

}  // namespace trainer
