// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "core/engine/device.h"

namespace trainer::cuda {

/// Readings of one GPU from NVIDIA's management library (NVML). The library comes with the driver and is
/// opened at run time; many machines do not have it.
class Monitor {
 public:
  /// Nothing if the library or the GPU is missing. `pci_bus_id` is CUDA's, "0000:1b:00.0".
  static std::unique_ptr<Monitor> open(const std::string& pci_bus_id,
                                       const std::string& library = "libnvidia-ml.so.1");
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// Unknown values are absent.
  DeviceReading read() const;

 private:
  struct Library;
  void read_health(DeviceReading& reading) const;
  void read_throttled(DeviceReading& reading) const;
  Monitor(std::unique_ptr<Library> library, void* device);

  std::unique_ptr<Library> library_;
  void* device_;
};

}  // namespace trainer::cuda
