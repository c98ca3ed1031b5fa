// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/devices.h"

#include "core/engine/backend_library.h"
#include "core/train/tuning_file.h"
#include "cpu/backend.h"

namespace trainer {

std::unique_ptr<Backend> open_device(const Recipe& recipe, Tuning& tuning) {
  if (recipe.device.type == "cpu") {
    return make_cpu_backend(static_cast<int>(recipe.device.threads),
                            recipe.runtime.autotune ? &tuning : nullptr);
  }
  return load_backend(recipe.device.type);
}

Tuning earlier_tuning(const Recipe& recipe) {
  if (!recipe.runtime.autotune) return {};
  return load_tuning(std::filesystem::path(recipe.output_directory()) / kTuningFile);
}

}  // namespace trainer
