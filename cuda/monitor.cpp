// SPDX-License-Identifier: Apache-2.0
#include "cuda/monitor.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

// NVML's header is not part of the CUDA toolkit's core. The used part of its binary interface, which NVIDIA
// keeps stable, is declared here. Source: NVML API reference, "Device Queries" and "Device Structs".

namespace trainer::cuda {
namespace {

using Return = int;  // 0: success
using Handle = void*;

constexpr int kSmClock = 1, kGpuTemperature = 0;
constexpr int kCorrected = 0, kUncorrected = 1;  ///< kinds of memory errors
constexpr int kSinceLoaded = 0;                  ///< counted since the driver was loaded
constexpr int kPowerPolicy = 0, kThermalPolicy = 1;

/// Bits of the reasons for clocks below the highest that slow training down.
constexpr std::pair<unsigned long long, const char*> kReasons[] = {
    {0x02, "application clocks"},
    {0x04, "power cap"},
    {0x08, "hardware slowdown"},
    {0x10, "sync boost"},
    {0x20, "temperature (software)"},
    {0x40, "temperature"},
    {0x80, "power brake"},
};

}  // namespace

struct Monitor::Library {
  struct Utilization {
    unsigned gpu, memory;  // per cent of the last sample period
  };
  struct Memory {
    unsigned long long total, free, used;
  };

  struct Violation {
    unsigned long long at, held;  // microseconds, nanoseconds
  };

  void* handle = nullptr;
  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  Return (*find_device)(const char*, Handle*) = nullptr;
  Return (*utilization)(Handle, Utilization*) = nullptr;
  Return (*memory)(Handle, Memory*) = nullptr;
  Return (*power)(Handle, unsigned*) = nullptr;
  Return (*temperature)(Handle, int, unsigned*) = nullptr;
  Return (*clock)(Handle, int, unsigned*) = nullptr;
  Return (*energy)(Handle, unsigned long long*) = nullptr;
  Return (*reasons)(Handle, unsigned long long*) = nullptr;
  Return (*violation)(Handle, int, Violation*) = nullptr;
  Return (*errors)(Handle, int, int, unsigned long long*) = nullptr;
  Return (*remaps)(Handle, unsigned*, unsigned*, unsigned*, unsigned*) = nullptr;
  Return (*link_generation)(Handle, unsigned*) = nullptr;
  Return (*link_width)(Handle, unsigned*) = nullptr;
  bool is_ready = false;

  ~Library() {
    if (is_ready) shutdown();
    if (handle != nullptr) dlclose(handle);
  }

  /// False if a function that every release has is missing.
  bool load(const std::string& path) {
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return false;
    const bool complete = find(init, "nvmlInit_v2") && find(shutdown, "nvmlShutdown") &&
                          find(find_device, "nvmlDeviceGetHandleByPciBusId_v2");
    find(utilization, "nvmlDeviceGetUtilizationRates");
    find(memory, "nvmlDeviceGetMemoryInfo");
    find(power, "nvmlDeviceGetPowerUsage");
    find(temperature, "nvmlDeviceGetTemperature");
    find(clock, "nvmlDeviceGetClockInfo");
    find(energy, "nvmlDeviceGetTotalEnergyConsumption");
    find(reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
    find(violation, "nvmlDeviceGetViolationStatus");
    find(errors, "nvmlDeviceGetTotalEccErrors");
    find(remaps, "nvmlDeviceGetRemappedRows");
    find(link_generation, "nvmlDeviceGetCurrPcieLinkGeneration");
    find(link_width, "nvmlDeviceGetCurrPcieLinkWidth");
    is_ready = complete && init() == 0;
    return is_ready;
  }

  template <class Function>
  bool find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    return function != nullptr;
  }
};

Monitor::Monitor(std::unique_ptr<Library> library, void* device)
    : library_(std::move(library)), device_(device) {}
Monitor::~Monitor() = default;

std::unique_ptr<Monitor> Monitor::open(const std::string& pci_bus_id, const std::string& library) {
  auto loaded = std::make_unique<Library>();
  Handle device = nullptr;
  if (!loaded->load(library) || loaded->find_device(pci_bus_id.c_str(), &device) != 0) return nullptr;
  return std::unique_ptr<Monitor>(new Monitor(std::move(loaded), device));
}

void Monitor::read_health(DeviceReading& reading) const {
  const Library& nvml = *library_;
  const auto errors = [&](int kind) -> std::optional<double> {
    unsigned long long count = 0;
    if (nvml.errors == nullptr || nvml.errors(device_, kind, kSinceLoaded, &count) != 0) return std::nullopt;
    return static_cast<double>(count);
  };
  reading.corrected_errors = errors(kCorrected);
  reading.uncorrected_errors = errors(kUncorrected);
  unsigned corrected = 0, uncorrected = 0, is_pending = 0, has_failed = 0;
  if (nvml.remaps != nullptr && nvml.remaps(device_, &corrected, &uncorrected, &is_pending, &has_failed) == 0)
    reading.pending_row_remaps = is_pending;
  unsigned value = 0;
  if (nvml.link_generation != nullptr && nvml.link_generation(device_, &value) == 0)
    reading.pcie_generation = value;
  if (nvml.link_width != nullptr && nvml.link_width(device_, &value) == 0) reading.pcie_width = value;
}

/// Power and temperature may hold the clock down at once, so the longer time counts.
void Monitor::read_throttled(DeviceReading& reading) const {
  if (library_->violation == nullptr) return;
  for (const int policy : {kPowerPolicy, kThermalPolicy}) {
    Library::Violation violation{};
    if (library_->violation(device_, policy, &violation) != 0) continue;
    reading.throttled_s =
        std::max(static_cast<double>(violation.held) * 1e-9, reading.throttled_s.value_or(0));
  }
}

DeviceReading Monitor::read() const {
  const Library& nvml = *library_;
  DeviceReading reading;
  Library::Utilization utilization{};
  if (nvml.utilization != nullptr && nvml.utilization(device_, &utilization) == 0)
    reading.utilization = utilization.gpu / 100.0;
  Library::Memory memory{};
  if (nvml.memory != nullptr && nvml.memory(device_, &memory) == 0)
    reading.memory_bytes = static_cast<double>(memory.used);
  unsigned value = 0;
  if (nvml.power != nullptr && nvml.power(device_, &value) == 0) reading.power_w = value / 1000.0;
  if (nvml.temperature != nullptr && nvml.temperature(device_, kGpuTemperature, &value) == 0)
    reading.temperature_c = value;
  if (nvml.clock != nullptr && nvml.clock(device_, kSmClock, &value) == 0) reading.clock_mhz = value;
  unsigned long long wide = 0;
  if (nvml.energy != nullptr && nvml.energy(device_, &wide) == 0)
    reading.energy_j = static_cast<double>(wide) / 1000.0;
  read_health(reading);
  read_throttled(reading);
  if (nvml.reasons == nullptr || nvml.reasons(device_, &wide) != 0) return reading;
  for (const auto& [bit, reason] : kReasons) {
    if ((wide & bit) != 0) reading.throttled_by.emplace_back(reason);
  }
  return reading;
}

}  // namespace trainer::cuda
