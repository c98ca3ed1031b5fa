// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/memory_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

#include "core/base/units.h"
#include "core/recipe/fitting_division.h"
#include "core/train/device_samples.h"

namespace trainer {
namespace {

/// Of the process itself, on the host.
int64_t& program_bytes(MemoryBudget& memory) {
  for (auto* kinds : {&memory.kinds, &memory.host}) {
    for (auto& [kind, bytes] : *kinds) {
      if (kind == "program") return bytes;
    }
  }
  throw std::logic_error("a budget without the program");
}

/// Everything but the process itself, which is measured and would include the planning as well.
int64_t planned_bytes(const MemoryBudget& memory) {
  int64_t sum = 0;
  for (const auto& [kind, bytes] : memory.kinds) sum += kind == "program" ? 0 : bytes;
  return sum;
}

std::string kinds_text(const std::vector<std::pair<std::string, int64_t>>& kinds) {
  std::string text;
  for (const auto& [kind, bytes] : kinds) {
    if (bytes > 0) text += fmt::format("\n  {:<12} {}", kind, human_bytes(bytes));
  }
  return text;
}

/// Of a device with memory of its own.
void require_host_memory(const Job& job) {
  if (job.memory.host.empty()) return;
  int64_t needed = 0;
  for (const auto& [kind, bytes] : job.memory.host) needed += bytes;
  const Limit available = memory_limit(job.spec.ranks_on_host());
  if (needed <= available.value) return;
  throw Error(ExitCode::out_of_memory,
              fmt::format("the run needs {} of host memory, the host has {}:{}\ntry data.workers=0, fewer "
                          "ranks on this host, or a job with more memory",
                          human_bytes(needed), memory_text(available), kinds_text(job.memory.host)));
}

}  // namespace

int64_t process_bytes(const Job& job) {
  return job.memory.total() - planned_bytes(job.memory);
}

bool all_stages_fit(const Job& job, const Planner& planner, const JobRequest& request, int64_t program,
                    int64_t available) {
  if (planned_bytes(job.memory) + program > available) return false;
  JobRequest of_others = request;
  of_others.observe = {};
  of_others.all_stages = job.all_stages;
  for (int64_t stage = 0; stage < job.spec.mesh().stages; ++stage) {
    if (stage == job.program.stage) continue;
    const Job other = make_job(job.spec.in_stage(stage), planner, of_others);
    if (planned_bytes(other.memory) + program > available) return false;
  }
  return true;
}

Limit available_memory(const RunSpec& spec, const Planner& planner) {
  const std::optional<ByteSize>& given = spec.recipe().device.memory;
  const Limit all{planner.memory_bytes() / planner.ranks_on_device(spec.ranks_on_host()),
                  planner.memory_limit()};
  // The kernel ends a process that exceeds such a limit, whatever the recipe says.
  const bool is_hard = !all.name.empty() && given && all.value < given->bytes;
  return given && !is_hard ? Limit{given->bytes, "device.memory"} : all;
}

int64_t available_bytes(const RunSpec& spec, const Planner& planner) {
  return available_memory(spec, planner).value;
}

Job make_fitting_job(const RunSpec& spec, const Planner& planner, const JobRequest& request) {
  if (!spec.searches_micro_batch()) return make_job(spec, planner, request);
  int64_t program = 0;
  const std::vector<int64_t> possible = spec.possible_micro_batches();
  for (const int64_t rows : possible) {
    Job job = make_job(spec.with_micro_batch(rows), planner, request);
    job.found_micro_batch = true;
    // Memory that earlier plans have left with the allocator is not part of the run.
    if (program == 0) program = program_bytes(job.memory);
    program_bytes(job.memory) = program;
    if (rows == possible.back() ||
        all_stages_fit(job, planner, request, process_bytes(job), available_bytes(spec, planner)))
      return job;
  }
  throw std::logic_error("no number of samples makes a micro-batch");
}

int64_t fitting_micro_batch(const Planner& planner, const Job& job, int64_t available) {
  constexpr int64_t kVaries = int64_t{4} << 20;  // the process itself, from one start to the next
  const int64_t program = process_bytes(job) + kVaries;
  const JobRequest request{.has_data = job.train.has_value(), .use = job.use};
  for (const int64_t rows : job.spec.possible_micro_batches()) {
    if (rows >= job.spec.batch().micro_batch) continue;
    const Job smaller = make_job(job.spec.with_micro_batch(rows), planner, request);
    if (all_stages_fit(smaller, planner, request, program, available)) return rows;
  }
  return 0;
}

namespace {

/// The division that fits, if this process may search for it: other ranks do not wait so long.
std::string division_advice(const Planner& planner, const Job& job, int64_t available, bool may_search) {
  constexpr const char* kNone = "no micro-batch size is small enough";
  if (!may_search)
    return fmt::format("{}; `trainer plan` with the same recipe and keys names a division that fits", kNone);
  const FittingDivision found = fitting_division(planner, job, available);
  if (!found.keys.empty()) return fmt::format("{}; try {} (on {} ranks)", kNone, found.keys, found.ranks);
  return found.is_complete ? fmt::format("{}: use a smaller network", kNone)
                           : fmt::format(
                                 "{}: divide the network among more ranks, or use a smaller one "
                                 "(docs/several-processes.md)",
                                 kNone);
}

std::string advice(const Planner& planner, const Job& job, int64_t available, bool may_search) {
  std::string text;
  if (const int64_t samples = DeviceSamples::device_bytes(job.plan); samples > 0)
    text += fmt::format("\ntry data.cache=none, which keeps {} of samples on the host", human_bytes(samples));
  if (job.use.purpose == Purpose::generate)
    return text + "\ntry fewer --samples (trainer time: --batch) or --tokens, which the cache grows with";
  const bool predicts = job.use.purpose == Purpose::predict;
  if (const int64_t rows = fitting_micro_batch(planner, job, available); rows > 0)
    return text + fmt::format("\ntry {}{}", predicts ? "--batch " : "training.micro_batch_size=", rows);
  if (job.use.purpose != Purpose::train)
    return text + "\nno micro-batch size is small enough: use a smaller network";
  return text + "\n" + division_advice(planner, job, available, may_search);
}

}  // namespace

std::string fitting_advice(const Planner& planner, const Job& job, int64_t available) {
  return advice(planner, job, available, true);
}

std::string memory_advice(const Planner& planner, const Job& job, int64_t available) {
  return kinds_text(job.memory.kinds) + advice(planner, job, available, job.spec.ranks() == 1);
}

void require_memory(const Planner& planner, const Job& job) {
  const Limit available = available_memory(job.spec, planner);
  if (job.memory.total() > available.value) {
    const std::string has = available.name == "device.memory"
                                ? fmt::format("device.memory has {}", human_bytes(available.value))
                                : fmt::format("the device has {}", memory_text(available));
    throw Error(ExitCode::out_of_memory,
                fmt::format("the run needs {}, {}:{}", human_bytes(job.memory.total()), has,
                            memory_advice(planner, job, available.value)));
  }
  require_host_memory(job);
}

}  // namespace trainer
