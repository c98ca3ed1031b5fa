// SPDX-License-Identifier: Apache-2.0
#include "core/engine/device_description.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/json.h"

namespace trainer {
namespace {

enum class Kind { number, sizes, text };

struct Property {
  const char* name;
  Kind kind;
};

/// Properties that cuDNN requires.
constexpr Property kProperties[] = {{"deviceVer", Kind::number},
                                    {"deviceName", Kind::text},
                                    {"multiProcessorCount", Kind::number},
                                    {"warpSize", Kind::number},
                                    {"maxSharedMemoryPerBlock", Kind::number},
                                    {"maxSharedMemoryPerBlockOptin", Kind::number},
                                    {"reservedSharedMemoryPerBlock", Kind::number},
                                    {"maxRegistersPerSM", Kind::number},
                                    {"maxCtasPerSM", Kind::number},
                                    {"maxThreadsPerBlock", Kind::number},
                                    {"maxThreadsPerSM", Kind::number},
                                    {"regsPerBlock", Kind::number},
                                    {"totalGlobalMem", Kind::number},
                                    {"smClockRateKHz", Kind::number},
                                    {"memClockRateKHz", Kind::number},
                                    {"l2CacheSize", Kind::number},
                                    {"maxBlockSize", Kind::sizes},
                                    {"maxGridSize", Kind::sizes},
                                    {"supportCoopLaunch", Kind::number},
                                    {"pciDeviceId", Kind::number},
                                    {"isTccDriver", Kind::number},
                                    {"cudaDeviceId", Kind::number},
                                    {"driverVer", Kind::number}};

constexpr const char* kPower = "powerLimitWatts";

[[noreturn]] void refuse_description(const std::string& file, const std::string& text) {
  throw Error(
      ExitCode::data,
      fmt::format("{}: {}; `trainer doctor --device-json FILE` writes the description of a GPU that is there",
                  file, text));
}

bool is_count(const Json& value) {
  return value.integer().value_or(-1) >= 0;
}

/// Throws unless the value is of the property's kind.
void check(const Property& property, const Json& value, const std::string& file) {
  const auto expect = [&](bool holds, const char* what) {
    if (!holds)
      refuse_description(file, fmt::format("{}: expected {}, got {}", property.name, what, value.dump()));
  };
  switch (property.kind) {
    case Kind::number:
      return expect(is_count(value), "a whole number from 0");
    case Kind::sizes:
      return expect(value.is_array() && value.size() == 3 && std::ranges::all_of(value.items(), is_count),
                    "three whole numbers from 0");
    case Kind::text:
      return expect(value.is_text() && !value.text().empty(), "a name");
  }
}

/// Bounds far from every device's, so that no product of rates, watts and hours overflows.
struct Bounds {
  double least, most;
};
constexpr Bounds kRate{1e6, 1e18}, kWatts{1, 1e6};

double number_within(const Bounds& bounds, const Json* value, const std::string& name,
                     const std::string& file) {
  const bool fits = value != nullptr && value->is_number() && value->number() >= bounds.least &&
                    value->number() <= bounds.most;
  if (!fits) {
    refuse_description(
        file, fmt::format("{}: expected a number from {:g} to {:g}, got {}", name, bounds.least, bounds.most,
                          value == nullptr ? "nothing" : value->dump()));
  }
  return value->number();
}

double rate(const Json& rates, const char* name, const std::string& file) {
  return number_within(kRate, rates.find(name), fmt::format("rates.{}", name), file);
}

std::optional<DeviceRates> read_rates(const Json& description, const std::string& file) {
  const Json* rates = description.find("rates");
  if (rates == nullptr) return std::nullopt;
  if (!rates->is_object()) refuse_description(file, "rates: expected an object, got " + rates->dump());
  return DeviceRates{.bytes = rate(*rates, "memoryBytesPerSecond", file),
                     .f32 = rate(*rates, "f32FlopsPerSecond", file),
                     .tf32 = rate(*rates, "tf32FlopsPerSecond", file),
                     .f16 = rate(*rates, "f16FlopsPerSecond", file),
                     .bf16 = rate(*rates, "bf16FlopsPerSecond", file)};
}

}  // namespace

DeviceDescription read_device_description(const std::string& text, const std::string& file) {
  Json description = Json::parse_or_null(text);
  description.sort();
  if (!description.is_object())
    refuse_description(file, "not a description of a GPU: expected a JSON object");
  for (const Property& property : kProperties) {
    const Json* found = description.find(property.name);
    if (found == nullptr)
      refuse_description(file, fmt::format("the description of a GPU lacks \"{}\"", property.name));
    check(property, *found, file);
  }
  const std::optional<DeviceRates> rates = read_rates(description, file);
  std::optional<double> watts;
  if (const Json* limit = description.find(kPower)) watts = number_within(kWatts, limit, kPower, file);
  for (const char* own : {"rates", kPower, "sources"}) description.erase(own);  // cuDNN does not know them
  return {.name = description["deviceName"].text(),
          .compute_capability = static_cast<int>(description["deviceVer"].integer().value() / 10),
          .memory_bytes = description["totalGlobalMem"].integer().value(),
          .properties = description.dump(),
          .rates = rates,
          .power_watts = watts};
}

}  // namespace trainer
