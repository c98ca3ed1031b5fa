// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdlib>
#include <string>

#include "core/base/split.h"
#include "core/host/cgroup.h"
#include "core/host/processors.h"
#include "cpu/processor_use.h"

namespace trainer {
namespace {

/// Directories are absolute, and stay below the mount points.
void try_groups(const std::string& groups, const std::string& mounts) {
  for (const char* controller : {"", "memory", "cpu"}) {
    for (const std::string& directory : cgroup_directories(groups, mounts, controller)) {
      if (!directory.starts_with('/')) std::abort();
    }
  }
}

/// No processor is busy for longer than there is time.
void try_use(const std::string& text) {
  const auto seconds = cpu::processor_seconds(text, {0, 1}, 100);
  if (seconds && !(std::isfinite(seconds->all) && seconds->busy >= 0 && seconds->busy <= seconds->all))
    std::abort();
}

/// A limit is above 0.
void try_numbers(const std::string& text) {
  if (parse_cgroup_bytes(text).value_or(1) <= 0) std::abort();
  const double cpus = parse_cpu_max(text).value_or(1);
  if (!std::isfinite(cpus) || cpus <= 0) std::abort();
  const auto processors = parse_processor_list(text);
  if (!processors) return;
  if (processors->empty() || processors->front() < 0 || processors->back() >= kMostProcessors) std::abort();
  for (size_t i = 1; i < processors->size(); ++i) {
    if ((*processors)[i] <= (*processors)[i - 1]) std::abort();
  }
}

}  // namespace
}  // namespace trainer

/// The texts of /proc/self/cgroup and /proc/self/mountinfo, separated by '\1'; or that of /proc/stat, a
/// number or a list.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> parts = trainer::split(text, '\1');
  if (parts.size() > 1) trainer::try_groups(parts[0], parts[1]);
  trainer::try_use(text);
  trainer::try_numbers(text);
  return 0;
}
