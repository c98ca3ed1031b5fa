// SPDX-License-Identifier: Apache-2.0
// Stands for NVIDIA's management library in a test: one GPU at 0000:1b:00.0, which does not tell its
// temperature and has no clock.
#include <cstring>

namespace {
int device = 0, users = 0;
unsigned long long millijoules = 5'000'000;
}  // namespace

extern "C" {
int nvmlInit_v2() {
  ++users;
  return 0;
}
int nvmlShutdown() {
  --users;
  return 0;
}
int fake_nvml_users() {
  return users;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* place, void** handle) {
  constexpr int kNotFound = 6;
  if (std::strcmp(place, "0000:1b:00.0") != 0 && std::strcmp(place, "0000:1c:00.0") != 0) return kNotFound;
  *handle = &device;
  return 0;
}
int nvmlDeviceGetUtilizationRates(void* handle, unsigned* rates) {
  if (handle != &device) return 2;
  rates[0] = 87, rates[1] = 40;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* memory) {
  memory[0] = 150'000'000'000, memory[1] = 140'000'000'000, memory[2] = 10'000'000'000;
  return 0;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 650'500;
  return 0;
}
int nvmlDeviceGetTemperature(void*, int, unsigned*) {
  constexpr int kNotSupported = 3;
  return kNotSupported;
}
int nvmlDeviceGetTotalEnergyConsumption(void*, unsigned long long* sum) {
  *sum = millijoules += 1'500;
  return 0;
}
int nvmlDeviceGetViolationStatus(void*, int policy, unsigned long long* times) {
  constexpr int kThermal = 1, kNotSupported = 3;
  if (policy > kThermal) return kNotSupported;
  times[0] = 1, times[1] = policy == kThermal ? 2'500'000'000 : 1'000'000'000;
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void*, int kind, int since, unsigned long long* count) {
  if (since != 0) return 2;
  *count = kind == 0 ? 12 : 1;
  return 0;
}
int nvmlDeviceGetRemappedRows(void*, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                              unsigned* failed) {
  *corrected = 3, *uncorrected = 4, *pending = 1, *failed = 0;
  return 0;
}
int nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* lanes) {
  *lanes = 8;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* bits) {
  *bits = 0x1 | 0x4 | 0x40;  // idle is not a reason to report
  return 0;
}
}
