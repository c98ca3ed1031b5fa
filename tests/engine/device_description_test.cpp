// SPDX-License-Identifier: Apache-2.0
#include "core/engine/device_description.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include "tests/catch.h"

#include "core/base/error.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string h200() {
  return text_of(fs::path(TRAINER_SOURCE_DIR) / "configs/devices/h200.json");
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
  int read = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(TRAINER_SOURCE_DIR) / "configs/devices")) {
    const DeviceDescription device = read_device_description(text_of(entry.path()), entry.path().string());
    CHECK(device.name.starts_with("NVIDIA "));
    CHECK(device.memory_bytes > int64_t{64} << 30);
    CHECK(device.compute_capability >= 80);
    CHECK(device.rates);
    ++read;
  }
  CHECK(read >= 4);
}

TEST_CASE("cuDNN is handed the properties without their sources") {
  const DeviceDescription device = read_device_description(h200(), "h200.json");
  CHECK(device.name == "NVIDIA H200");
  CHECK(device.compute_capability == 90);
  CHECK(device.memory_bytes == 150110011392);
  CHECK_THAT(device.properties, ContainsSubstring("\"l2CacheSize\":62914560") &&
                                    !ContainsSubstring("sources") && !ContainsSubstring("rates"));
}

TEST_CASE("a description may have rates; then it has all of them") {
  const DeviceDescription device = read_device_description(h200(), "h200.json");
  REQUIRE(device.rates);
  CHECK(device.rates->bytes == 4.8e12);
  CHECK(device.rates->tf32 == 494.7e12);
  CHECK_FALSE(read_device_description(with(h200(), "\"rates\"", "\"others\""), "h200.json").rates);
  CHECK_THAT(refusal(with(h200(), "\"bf16Flops", "\"bf16")),
             ContainsSubstring("gpu.json: rates.bf16FlopsPerSecond: expected a number above 0, got nothing"));
  CHECK_THAT(refusal(with(h200(), "4800000000000", "0")),
             ContainsSubstring("rates.memoryBytesPerSecond: expected a number above 0, got 0"));
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
