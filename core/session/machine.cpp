// SPDX-License-Identifier: Apache-2.0
#include "core/session/machine.h"

#include <fmt/format.h>

#include "core/base/units.h"
#include "core/host/limits.h"
#include "core/recipe/memory_fit.h"

namespace trainer {
namespace {

/// Allocates the device's memory. If another process has taken some of it, the error names what would fit
/// now.
std::unique_ptr<Executable> open_executable(const Backend& backend, const Job& job) {
  try {
    return std::make_unique<Executable>(job.plan, *backend.device, job.spec.recipe().runtime.cuda_graph);
  } catch (const Error& problem) {
    if (problem.code() != ExitCode::out_of_memory) throw;
    throw Error(
        ExitCode::out_of_memory,
        fmt::format("{}; the plan needs {}:{}", problem.what(), human_bytes(job.memory.total()),
                    memory_advice(*backend.planner, job, available_bytes(job.spec, *backend.planner))));
  }
}

}  // namespace

Machine open_machine(const Backend& backend, const Job& job, const std::filesystem::path& list) {
  Machine machine;
  machine.train = open_feed(job, *backend.device, Split::train, list);
  machine.validation = open_feed(job, *backend.device, Split::val, list, machine.train.pipeline.get());
  machine.executable = open_executable(backend, job);
  initialize(*machine.executable, job.spec.seed(),
             DrawingThreads{thread_limit(job.spec.ranks_on_host()).value});
  return machine;
}

}  // namespace trainer
