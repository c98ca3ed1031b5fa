// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/devices.h"

#include "apps/trainer/device_models.h"
#include "core/engine/backend_library.h"
#include "cpu/backend.h"

namespace trainer {
namespace {

/// For a GPU of which only a description is needed.
Backend plan_for(const FilePath& model, const Recipe& recipe, BackendRequest request) {
  const DeviceDescription device = find_device(model, recipe.origin_of("device.model"));
  request.described = &device;
  return load_backend(recipe.device.type, request);
}

}  // namespace

Backend open_device(const Recipe& recipe, Tuning& tuning, Use use, int64_t threads) {
  if (recipe.device.type == "cpu") {
    return make_cpu_backend(static_cast<int>(recipe.device.threads > 0 ? recipe.device.threads : threads),
                            recipe.runtime.autotune ? &tuning : nullptr, recipe.device.emulate_bf16);
  }
  const BackendRequest request{.tuning = recipe.runtime.autotune ? &tuning : nullptr,
                               .tf32 = recipe.training.parsed_precision() == Precision::tf32,
                               .deterministic = recipe.run.deterministic};
  if (use == Use::train) return load_backend(recipe.device.type, request);
  if (recipe.device.model.written != "auto") return plan_for(recipe.device.model, recipe, request);
  try {
    return load_backend(recipe.device.type, request);
  } catch (const Error& problem) {  // no GPU; where the library itself is missing, the next attempt says so
    if (problem.code() != ExitCode::no_device) throw;
    return plan_for(kDefaultModel, recipe, request);
  }
}

}  // namespace trainer
