// SPDX-License-Identifier: Apache-2.0
#include "core/engine/backend.h"

#include <chrono>
#include <cstring>
#include <stdexcept>

namespace trainer {
namespace {

class HostStopwatch final : public Stopwatch {
 public:
  explicit HostStopwatch(size_t points) : points_(points) {}
  void mark(size_t i) override { points_[i] = std::chrono::steady_clock::now(); }
  double seconds(size_t i) const override {
    return std::chrono::duration<double>(points_[i + 1] - points_[i]).count();
  }

 private:
  std::vector<std::chrono::steady_clock::time_point> points_;
};

}  // namespace

std::unique_ptr<Stopwatch> Backend::make_stopwatch(size_t points) {
  return std::make_unique<HostStopwatch>(points);
}

void Backend::fetch(void* host, const void* device, int64_t bytes) {
  std::memcpy(host, device, static_cast<size_t>(bytes));
}

void Backend::store(void* device, const void* host, int64_t bytes) {
  std::memcpy(device, host, static_cast<size_t>(bytes));
}

void Backend::copy_to_device_async(std::span<const HostCopy>, int64_t) {
  throw std::logic_error("a batch is read where it lies");
}

std::optional<std::string> Backend::set_precision(Precision precision) {
  if (precision == Precision::fp32) return std::nullopt;
  return std::string(name()) + " computes in fp32 only; write fp32";
}

}  // namespace trainer
