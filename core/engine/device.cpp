// SPDX-License-Identifier: Apache-2.0
#include "core/engine/device.h"

#include <chrono>
#include <cstring>
#include <stdexcept>

namespace trainer {
namespace {

class HostStopwatch final : public Stopwatch {
 public:
  explicit HostStopwatch(size_t marks) : marks_(marks) {}
  void mark(size_t i) override { marks_[i] = std::chrono::steady_clock::now(); }
  double seconds(size_t i) const override {
    return std::chrono::duration<double>(marks_[i + 1] - marks_[i]).count();
  }

 private:
  std::vector<std::chrono::steady_clock::time_point> marks_;
};

}  // namespace

std::unique_ptr<Stopwatch> Device::make_stopwatch(size_t marks) {
  return std::make_unique<HostStopwatch>(marks);
}

void Device::copy_to_host(std::span<std::byte> host, const void* device) {
  std::memcpy(host.data(), device, host.size());
}

void Device::copy_to_device(void* device, std::span<const std::byte> host) {
  std::memcpy(device, host.data(), host.size());
}

void Device::copy_to_host_async(std::span<std::byte> host, const void* device) {
  copy_to_host(host, device);
}

void Device::copy_to_device_async(std::span<const HostCopy>, int64_t) {
  throw std::logic_error("a synchronous device reads batches in place");
}

}  // namespace trainer
