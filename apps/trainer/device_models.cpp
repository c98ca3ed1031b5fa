// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/device_models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <iterator>
#include <string>

#include "apps/trainer/shipped_files.h"

namespace trainer {
std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const auto& [name, json] : shipped_devices()) names.push_back(name);
  return names;
}

std::optional<std::string> described_as(const std::string& gpu) {
  for (const auto& [name, json] : shipped_devices()) {
    if (read_device_description(json, name + ".json").name == gpu) return name;
  }
  return std::nullopt;
}

DeviceDescription find_device(const FilePath& model, const Origin& origin) {
  const std::string& name = model.written;
  const auto found = shipped_devices().find(name);
  if (found != shipped_devices().end()) return read_device_description(found->second, name + ".json");
  if (!name.ends_with(".json")) {
    fail_at(origin, fmt::format("unknown GPU '{}': choose auto, {}, or a file that ends in .json", name,
                                fmt::join(device_names(), ", ")));
  }
  std::ifstream file(model.resolved);
  if (!file) fail_at(origin, fmt::format("cannot read the description {}", with_base(model)));
  return read_device_description({std::istreambuf_iterator<char>(file), {}}, model.resolved);
}

}  // namespace trainer
