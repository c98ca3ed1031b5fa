// SPDX-License-Identifier: Apache-2.0
#include "core/host/limits.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <vector>

#include "core/base/units.h"
#include "core/host/processors.h"

namespace trainer {
namespace {

/// Pages of this process: all of its address space, those in memory, and private data with stacks.
struct Pages {
  int64_t all = 0, resident = 0, data = 0;
};

Pages own_pages() {
  Pages pages;
  int64_t shared = 0, text = 0, library = 0;
  std::ifstream file("/proc/self/statm");
  if (file >> pages.all >> pages.resident >> shared >> text >> library >> pages.data) return pages;
  return {};
}

std::optional<int64_t> resource_limit(__rlimit_resource resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX));
}

/// A plan counts memory that is in use. The system also counts what is reserved only, such as stacks.
std::optional<int64_t> room_below(__rlimit_resource resource, int64_t counted, int64_t resident) {
  const std::optional<int64_t> most = resource_limit(resource);
  if (!most) return std::nullopt;
  return std::max<int64_t>(1, *most - std::max<int64_t>(0, counted - resident));
}

void lower(Limit& least, const Limit& other) {
  if (other.value < least.value) least = other;
}

}  // namespace

HostFacts host_facts(const std::filesystem::path& root) {
  HostFacts facts{.cgroup = read_cgroup_limits(root), .slurm = slurm_limits()};
  const int64_t page = ::sysconf(_SC_PAGESIZE), pages = ::sysconf(_SC_PHYS_PAGES);
  if (page > 0 && pages > 0) facts.memory = pages * page;
  std::vector<int64_t> online = online_processors(root), allowed = allowed_processors();
  if (online.empty()) online = allowed;
  if (allowed.empty()) allowed = online;
  facts.cores = std::max<int64_t>(1, physical_cores(online, root));
  facts.allowed_cores = online == allowed ? facts.cores : std::max<int64_t>(1, physical_cores(allowed, root));
  const Pages own = own_pages();
  facts.address_space = room_below(RLIMIT_AS, own.all * page, own.resident * page);
  facts.data = room_below(RLIMIT_DATA, own.data * page, own.resident * page);
  facts.locked_memory = resource_limit(RLIMIT_MEMLOCK);
  return facts;
}

Limit shared_by(int64_t processes, const Limit& all) {
  if (processes == 1) return {std::max<int64_t>(1, all.value), all.name};
  return {std::max<int64_t>(1, all.value / processes),
          fmt::format("{}, shared by {} processes", all.name, processes)};
}

Limit memory_limit(int64_t processes, const HostFacts& facts) {
  Limit least = shared_by(processes, {facts.memory, kMachine});
  if (facts.cgroup.memory) lower(least, shared_by(processes, {*facts.cgroup.memory, "cgroup"}));
  if (facts.slurm.memory) lower(least, shared_by(processes, {*facts.slurm.memory, facts.slurm.memory_name}));
  if (facts.address_space) lower(least, {*facts.address_space, "ulimit -v"});
  if (facts.data) lower(least, {*facts.data, "ulimit -d"});
  return least;
}

Limit thread_limit(int64_t processes, const HostFacts& facts) {
  // A launcher may have given each process cores or CPUs of its own. Else they share them.
  const auto part = [&](const Limit& all, int64_t of_host) {
    return share_of_cores(all.value, of_host, processes) == all.value ? all : shared_by(processes, all);
  };
  const char* of_cores = facts.allowed_cores < facts.cores ? "affinity" : kCores;
  Limit least = part({facts.allowed_cores, of_cores}, facts.cores);
  if (facts.cgroup.cpus) {
    // Half a core more is worth a thread, though all threads then wait together: docs/benchmarks.md.
    const double most = std::min(*facts.cgroup.cpus, static_cast<double>(facts.cores));
    lower(least, shared_by(processes, {std::lround(most), facts.cgroup.cpus_file}));
  }
  if (const auto cpus = facts.slurm.cpus_per_task)
    lower(least, part({*cpus, "SLURM_CPUS_PER_TASK"}, facts.slurm.cpus_on_node.value_or(0)));
  return least;
}

std::string memory_text(const Limit& memory) {
  const std::string bytes = human_bytes(memory.value);
  return memory.name.empty() ? bytes : fmt::format("{} ({})", bytes, memory.name);
}

std::string limits_text(const Limit& memory, const Limit& threads) {
  return fmt::format("{} of memory ({}), {} thread{} ({})", human_bytes(memory.value), memory.name,
                     threads.value, threads.value == 1 ? "" : "s", threads.name);
}

}  // namespace trainer
