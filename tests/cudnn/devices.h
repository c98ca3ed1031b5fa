// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "core/engine/device_description.h"

namespace trainer {

/// One of the shipped descriptions: "h200".
inline DeviceDescription shipped_device(const std::string& name) {
  const std::string path = std::string(TRAINER_SOURCE_DIR) + "/configs/devices/" + name + ".json";
  std::ifstream file(path);
  return read_device_description({std::istreambuf_iterator<char>(file), {}}, path);
}

}  // namespace trainer
