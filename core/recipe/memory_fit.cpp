// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/memory_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

#include "core/base/units.h"
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

/// Whether the job needs at most so many bytes of the device's memory, and so do the other stages of a
/// pipeline. `program`: bytes of the process itself.
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

}  // namespace

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
        all_stages_fit(job, planner, request, job.memory.total() - planned_bytes(job.memory),
                       available_bytes(spec, planner)))
      return job;
  }
  throw std::logic_error("no number of samples makes a micro-batch");
}

int64_t fitting_micro_batch(const Planner& planner, const Job& job, int64_t available) {
  constexpr int64_t kVaries = int64_t{4} << 20;  // the process itself, from one start to the next
  const int64_t program = job.memory.total() - planned_bytes(job.memory) + kVaries;
  for (const int64_t rows : job.spec.possible_micro_batches()) {
    if (rows >= job.spec.batch().micro_batch) continue;
    const Job smaller = make_job(job.spec.with_micro_batch(rows), planner,
                                 {.has_data = job.train.has_value(), .use = job.use});
    if (planned_bytes(smaller.memory) + program <= available) return rows;
  }
  return 0;
}

namespace {

/// A way to divide a network among ranks.
struct Division {
  int64_t ranks, ranks_on_host;
  std::vector<std::string> keys;
};

/// Those that may need less memory on each rank, the fewest ranks first, and among these the one that changes
/// least.
std::vector<Division> possible_divisions(const Job& job) {
  constexpr int64_t kMostRanks = 64, kMostOfTensor = 8;
  std::vector<Division> found;
  for (int64_t ranks = std::max<int64_t>(2, job.spec.ranks()); ranks <= kMostRanks; ranks *= 2) {
    const int64_t on_host = ranks == job.spec.ranks() ? job.spec.ranks_on_host() : ranks;
    const auto add = [&](std::vector<std::string> keys) {
      found.push_back({.ranks = ranks, .ranks_on_host = on_host, .keys = std::move(keys)});
    };
    add({fmt::format("parallelism.data={}", ranks), "parallelism.shard_parameters=true"});
    if (ranks <= kMostOfTensor) add({fmt::format("parallelism.tensor={}", ranks)});
    add({fmt::format("parallelism.pipeline={}", ranks)});
  }
  return found;
}

/// What one of the division's ranks may take. Ranks on CPUs share their host's memory.
int64_t available_to(const Division& division, const RunSpec& spec, const Planner& planner, const Job& job,
                     int64_t available) {
  if (spec.recipe().device.memory) return available;
  if (planner.is_async()) return available_bytes(spec, planner);
  return available * job.spec.ranks_on_host() / division.ranks_on_host;
}

/// The keys of a division, with the micro-batch if it must be smaller, if all its ranks' plans fit.
std::optional<std::string> fitting_keys(const Planner& planner, const Job& job, const Division& division,
                                        int64_t available) try {
  const Recipe& recipe = job.spec.recipe();
  std::vector<std::string> keys = {"parallelism.data=auto",
                                   "parallelism.tensor=1",
                                   "parallelism.pipeline=1",
                                   "parallelism.shard_parameters=false",
                                   "parallelism.shard_optimizer=false",
                                   "training.micro_batch_size=auto"};
  keys.insert(keys.end(), division.keys.begin(), division.keys.end());
  const RunSpec spec(Recipe::parse(recipe.to_yaml(false), recipe.file(), keys),
                     {.rank = 0, .ranks = division.ranks}, division.ranks_on_host);
  const int64_t room = available_to(division, spec, planner, job, available);
  // A division of all that lasts from step to step would not be enough.
  if (Checkpoints::checkpoint_bytes(job.plan) / division.ranks > room) return std::nullopt;
  const int64_t program = job.memory.total() - planned_bytes(job.memory);
  for (const int64_t rows : spec.possible_micro_batches()) {
    if (rows > job.spec.batch().micro_batch) continue;
    const Job divided =
        make_job(spec.with_micro_batch(rows), planner, {.has_data = job.train.has_value(), .use = job.use});
    if (!all_stages_fit(divided, planner, {.has_data = job.train.has_value(), .use = job.use}, program, room))
      continue;
    std::string text = fmt::format("{}", fmt::join(division.keys, " "));
    const std::optional<AutoCount>& given = recipe.training.micro_batch_size;
    const int64_t unchanged = given ? given->count.value_or(rows) : spec.batch().rank_batch();
    if (rows != unchanged) text += fmt::format(" training.micro_batch_size={}", rows);
    return text;
  }
  return std::nullopt;
} catch (const Error&) {  // this network, batch or optimizer cannot be divided so
  return std::nullopt;
}

}  // namespace

std::string fitting_division(const Planner& planner, const Job& job, int64_t available) {
  for (const Division& division : possible_divisions(job)) {
    if (const auto keys = fitting_keys(planner, job, division, available))
      return fmt::format("{} (on {} ranks)", *keys, division.ranks);
  }
  return "";
}

std::string fitting_advice(const Planner& planner, const Job& job, int64_t available) {
  std::string text;
  if (const int64_t samples = DeviceSamples::device_bytes(job.plan); samples > 0)
    text += fmt::format("\ntry data.cache=none, which keeps {} of samples on the host", human_bytes(samples));
  if (job.use.purpose == Purpose::generate)
    return text + "\ntry fewer --samples (trainer time: --batch) or --tokens, which the cache grows with";
  const bool predicts = job.use.purpose == Purpose::predict;
  if (const int64_t rows = fitting_micro_batch(planner, job, available); rows > 0)
    return text + fmt::format("\ntry {}{}", predicts ? "--batch " : "training.micro_batch_size=", rows);
  if (job.use.purpose == Purpose::train) {
    if (const std::string keys = fitting_division(planner, job, available); !keys.empty())
      return text + fmt::format("\nno micro-batch size is small enough; try {}", keys);
  }
  return text + "\nno micro-batch size is small enough: use a smaller network";
}

std::string memory_advice(const Planner& planner, const Job& job, int64_t available) {
  return kinds_text(job.memory.kinds) + fitting_advice(planner, job, available);
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
