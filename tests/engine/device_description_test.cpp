// SPDX-License-Identifier: Apache-2.0
#include "core/engine/device_description.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include "tests/catch.h"

#include "core/base/error.h"
#include "core/base/json.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

fs::path path_of(const std::string& name) {
  return fs::path(TRAINER_SOURCE_DIR) / "configs/devices" / (name + ".json");
}

std::string h200() {
  return text_of(path_of("h200"));
}

std::map<std::string, DeviceDescription> shipped() {
  std::map<std::string, DeviceDescription> all;
  for (const auto& entry : fs::directory_iterator(path_of("h200").parent_path()))
    all[entry.path().stem()] = read_device_description(text_of(entry.path()), entry.path().string());
  return all;
}

/// Multiplications with addition of f32, a clock and multiprocessor.
double f32_lanes(const DeviceDescription& device) {
  return device.compute_capability == 80 ? 64 : 128;
}

/// The same of f16 on tensor cores, accumulated in f32 and without sparsity.
double multiplications(const DeviceDescription& device) {
  if (device.name.find("GeForce") != std::string::npos) return 256;
  switch (device.compute_capability) {
    case 80:
      return 1024;
    case 90:
      return 2048;
    case 100:
      return 4096;
    default:
      return 512;  // 8.6 and 8.9
  }
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& text) {
  try {
    read_device_description(text, "gpu.json");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::data);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the shipped descriptions are complete") {
  const std::map<std::string, DeviceDescription> all = shipped();
  CHECK(all.size() >= 10);
  for (const auto& [name, device] : all) {
    INFO(name);
    CHECK(device.name.starts_with("NVIDIA "));
    CHECK(device.memory_bytes > int64_t{20} << 30);
    CHECK(device.compute_capability >= 80);
    CHECK(device.rates);
    CHECK(device.power_watts);
    const Json sources = Json::parse_or_null(text_of(path_of(name)))["sources"];
    CHECK(sources.find("rates") != nullptr);
    CHECK(sources.find("powerLimitWatts") != nullptr);
  }
}

// A rate with sparsity is twice too high, one that accumulates in f16 on a GeForce too.
TEST_CASE("a shipped description's arithmetic follows from its multiprocessors and their clock") {
  for (const auto& [name, device] : shipped()) {
    INFO(name);
    const Json chip = Json::parse_or_null(device.properties);
    const double cycles = 1e3 * chip.find("smClockRateKHz")->number() *
                          chip.find("multiProcessorCount")->number();  // of all multiprocessors, a second
    const DeviceRates& rates = device.rates.value();
    CHECK(rates.f32 / cycles == Approx(2 * f32_lanes(device)).epsilon(0.01));
    // Hopper and Blackwell lower the clock, by up to 8 %, if tensor cores compute.
    const double share = rates.f16 / cycles / (2 * multiplications(device));
    CHECK(share > 0.92);
    CHECK(share < 1.001);
    CHECK(rates.bf16 == rates.f16);
    CHECK(rates.tf32 == Approx(rates.f16 / 2).epsilon(0.02));
    CHECK(rates.f16 > 1e12 * 0.3 * device.power_watts.value());
    CHECK(rates.f16 < 1e12 * 3 * device.power_watts.value());
  }
}

TEST_CASE("the shipped GPUs are in the order of their memory's rates") {
  const std::map<std::string, DeviceDescription> all = shipped();
  double before = 0;
  for (const char* name : {"l4", "a10", "l40s", "rtx4090", "rtx5090", "h100_pcie", "h100", "h200", "b200"}) {
    INFO(name);
    CHECK(all.at(name).rates->bytes > before);
    before = all.at(name).rates->bytes;
  }
  CHECK(all.at("a100").rates->bytes == Approx(all.at("h100_pcie").rates->bytes));
}

TEST_CASE("cuDNN is handed the properties without their sources") {
  const DeviceDescription device = read_device_description(h200(), "h200.json");
  CHECK(device.name == "NVIDIA H200");
  CHECK(device.compute_capability == 90);
  CHECK(device.memory_bytes == 150110011392);
  CHECK_THAT(device.properties, ContainsSubstring("\"l2CacheSize\":62914560") &&
                                    !ContainsSubstring("sources") && !ContainsSubstring("rates") &&
                                    !ContainsSubstring("Watts"));
}

TEST_CASE("a description may have rates; then it has all of them") {
  const DeviceDescription device = read_device_description(h200(), "h200.json");
  REQUIRE(device.rates);
  CHECK(device.rates->bytes == 4.8e12);
  CHECK(device.rates->tf32 == 494.7e12);
  CHECK_FALSE(read_device_description(with(h200(), "\"rates\"", "\"others\""), "h200.json").rates);
  CHECK_THAT(refusal(with(h200(), "\"bf16Flops", "\"bf16")),
             ContainsSubstring(
                 "gpu.json: rates.bf16FlopsPerSecond: expected a number from 1e+06 to 1e+18, got nothing"));
  CHECK_THAT(refusal(with(h200(), "4800000000000", "0")),
             ContainsSubstring("rates.memoryBytesPerSecond: expected a number from 1e+06 to 1e+18, got 0"));
}

TEST_CASE("a description may have a power limit, in watts") {
  CHECK(read_device_description(h200(), "h200.json").power_watts == 700);
  CHECK_FALSE(read_device_description(with(h200(), "\"powerLimitWatts\"", "\"w\""), "h200.json").power_watts);
  CHECK_THAT(refusal(with(h200(), "700,", "-700,")),
             ContainsSubstring("gpu.json: powerLimitWatts: expected a number from 1 to 1e+06, got -700"));
}

TEST_CASE("an incomplete or wrong description is refused by the property's name") {
  CHECK_THAT(refusal(with(h200(), "\"l2CacheSize\"", "\"l2\"")),
             ContainsSubstring(
                 "gpu.json: the description of a GPU lacks \"l2CacheSize\"; `trainer doctor --device-json"));
  CHECK_THAT(refusal(with(h200(), "132", "\"132\"")),
             ContainsSubstring("multiProcessorCount: expected a whole number from 0, got \"132\""));
  CHECK_THAT(refusal(with(h200(), "132", "-132")), ContainsSubstring("multiProcessorCount: expected"));
  CHECK_THAT(refusal(with(h200(), "1024, 1024, 64", "1024, 64")),
             ContainsSubstring("maxBlockSize: expected three whole numbers from 0, got [1024,64]"));
  CHECK_THAT(refusal(with(h200(), "NVIDIA H200", "")),
             ContainsSubstring("deviceName: expected a name, got \"\""));
  CHECK_THAT(refusal("[1]"), ContainsSubstring("expected a JSON object"));
  CHECK_THAT(refusal("{"), ContainsSubstring("expected a JSON object"));
}

}  // namespace trainer
