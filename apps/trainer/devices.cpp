// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "apps/trainer/device_models.h"
#include "core/engine/backend_library.h"
#include "core/host/limits.h"
#include "core/storage/user_cache.h"
#include "cpu/backend.h"

namespace trainer {
namespace {

constexpr const char* kCuda = "cuda";

std::shared_ptr<TextCache> user_cache() {
  const auto directory = user_cache_directory();
  return directory ? std::make_shared<UserCache>(*directory) : nullptr;
}

/// Of one of `processes` on this host.
HostMemory host_memory(int64_t processes) {
  Limit limit = memory_limit(processes);
  if (limit.name.starts_with(kMachine)) limit.name.clear();
  return {.bytes = limit.value, .limit = std::move(limit.name)};
}

/// For a GPU that is only planned for.
Backend plan_for(const FilePath& model, const Recipe& recipe, BackendRequest request) {
  const DeviceDescription device = find_device(model, recipe.origin_of("device.model"));
  request.described = &device;
  return load_backend(kCuda, request);
}

}  // namespace

Backend open_device(const RunSpec& spec, Tuning& tuning, const DeviceChoice& device, Use use,
                    ProcessGroup* group) {
  const Recipe& recipe = spec.recipe();
  const DeviceSection& section = recipe.device;
  const BackendRequest request{.tuning = &tuning,
                               .cache = user_cache(),
                               .index = static_cast<int>(section.index),
                               .group = group,
                               .ranks = spec.ranks(),
                               .local_rank = device.local_rank,
                               .tf32 = recipe.training.parsed_precision() == Precision::tf32,
                               .deterministic = recipe.run.deterministic};
  // If a GPU is named, the plan is for that GPU, whatever this machine has.
  if (use == Use::plan && section.model.written != "auto" && section.type != "cpu")
    return plan_for(section.model, recipe, request);
  if (device.type == "cpu") {
    // OpenMP knows the affinity, too, if it has bound this thread to a core since.
    const int64_t threads = device.threads.name.starts_with(kCores)
                                ? std::min<int64_t>(device.threads.value, available_threads())
                                : device.threads.value;
    if (section.instructions != "auto") limit_cpu_instructions(section.instructions);
    return make_cpu_backend(static_cast<int>(threads), tuning.times_all ? &tuning : nullptr,
                            section.emulate_bf16, group, recipe.runtime.winograd != "off",
                            host_memory(spec.ranks_on_host()));
  }
  if (use == Use::train) return load_backend(kCuda, request);
  try {
    return load_backend(kCuda, request);
  } catch (const Error& problem) {  // no GPU; if the library itself is missing, the next attempt says so
    if (problem.code() != ExitCode::no_device) throw;
    return plan_for(kDefaultModel, recipe, request);
  }
}

Backend open_to_train(const RunSpec& spec, Tuning& tuning, const DeviceChoice& device, ProcessGroup* group) {
  return open_device(spec, tuning, device, Use::train, group);
}

}  // namespace trainer
