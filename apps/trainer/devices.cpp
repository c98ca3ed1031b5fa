// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/devices.h"

#include "core/engine/backend_library.h"
#include "cpu/backend.h"

namespace trainer {

std::unique_ptr<Backend> open_device(const Recipe& recipe) {
  if (recipe.device.type == "cpu") return make_cpu_backend(static_cast<int>(recipe.device.threads));
  return load_backend(recipe.device.type);
}

}  // namespace trainer
