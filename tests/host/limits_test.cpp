// SPDX-License-Identifier: Apache-2.0
#include "core/host/limits.h"

#include <sched.h>

#include <thread>

#include "core/host/processors.h"
#include "tests/catch.h"

#include "tests/host/environment.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Numbers = std::vector<int64_t>;

constexpr int64_t kGiB = int64_t{1} << 30;

/// 64 cores and 256 GiB.
HostFacts node() {
  return {.memory = 256 * kGiB, .cores = 64, .allowed_cores = 64};
}

std::string of(const Limit& limit) {
  return std::to_string(limit.value) + " " + limit.name;
}

/// A job with these variables, and none of Slurm's others.
struct SlurmJob {
  explicit SlurmJob(const std::map<std::string, std::string>& variables) {
    for (const char* name :
         {"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_MEM_PER_NODE",
          "SLURM_MEM_PER_CPU", "SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE"}) {
      const auto found = variables.find(name);
      environment.set(name, found == variables.end() ? nullptr : found->second.c_str());
    }
  }
  test::Environment environment;
};

std::optional<int64_t> slurm_memory(std::map<std::string, std::string> variables) {
  variables.emplace("SLURM_JOB_ID", "12");
  const SlurmJob job(variables);
  return slurm_limits().memory;
}

}  // namespace

TEST_CASE("the least limit of memory counts, and is named") {
  HostFacts facts = node();
  CHECK(of(memory_limit(1, facts)) == std::to_string(256 * kGiB) + " machine");
  facts.slurm = {.memory = 64 * kGiB, .memory_name = "SLURM_MEM_PER_NODE"};
  CHECK(of(memory_limit(1, facts)) == std::to_string(64 * kGiB) + " SLURM_MEM_PER_NODE");
  facts.cgroup.memory = 8 * kGiB;
  CHECK(of(memory_limit(1, facts)) == std::to_string(8 * kGiB) + " cgroup");
  // Ranks share a container, but each has its own address space.
  CHECK(of(memory_limit(4, facts)) == std::to_string(2 * kGiB) + " cgroup, shared by 4 processes");
  facts.address_space = 4 * kGiB;
  CHECK(of(memory_limit(1, facts)) == std::to_string(4 * kGiB) + " ulimit -v");
  CHECK(memory_limit(4, facts).value == 2 * kGiB);
  facts.data = 1;
  CHECK(of(memory_limit(1, facts)) == "1 ulimit -d");
  facts.cgroup.memory = 1;
  CHECK(memory_limit(1000, facts).value == 1);  // never 0
}

TEST_CASE("the least limit of threads counts, and is named") {
  HostFacts facts = node();
  CHECK(of(thread_limit(1, facts)) == "64 cores");
  CHECK(of(thread_limit(8, facts)) == "8 cores, shared by 8 processes");
  facts.allowed_cores = 16;
  CHECK(of(thread_limit(1, facts)) == "16 affinity");
  CHECK(of(thread_limit(4, facts)) == "16 affinity");  // each is bound to its own
  CHECK(of(thread_limit(8, facts)) == "2 affinity, shared by 8 processes");
  facts.slurm = {.cpus_per_task = 8, .cpus_on_node = 32};
  CHECK(of(thread_limit(1, facts)) == "8 SLURM_CPUS_PER_TASK");
  CHECK(of(thread_limit(4, facts)) == "8 SLURM_CPUS_PER_TASK");  // of each task
  CHECK(of(thread_limit(2, {.cores = 64, .allowed_cores = 64, .slurm = {.cpus_per_task = 8}})) ==
        "4 SLURM_CPUS_PER_TASK, shared by 2 processes");
  facts.cgroup = {.memory = {}, .cpus = 4, .cpus_file = "cpu.max"};
  CHECK(of(thread_limit(1, facts)) == "4 cpu.max");
  CHECK(of(thread_limit(3, facts)) == "1 cpu.max, shared by 3 processes");
  for (const double less_than_one : {0.5, 0.01, 1e-9}) {
    facts.cgroup.cpus = less_than_one;
    CHECK(of(thread_limit(1, facts)) == "1 cpu.max");
  }
  for (const auto& [cpus, threads] : {std::pair{1.49, 1}, {1.5, 2}, {2.5, 3}, {7.4, 7}}) {
    facts.cgroup.cpus = cpus;
    CHECK(thread_limit(1, facts).value == threads);
  }
  CHECK(of(shared_by(1, {4, "cpu.max"})) == "4 cpu.max");
  CHECK(of(shared_by(4, {16, "affinity"})) == "4 affinity, shared by 4 processes");
  CHECK(of(shared_by(4, {3, "cpu.max"})) == "1 cpu.max, shared by 4 processes");
  facts.cgroup.cpus = 1e300;
  CHECK(of(thread_limit(1, facts)) == "8 SLURM_CPUS_PER_TASK");
}

TEST_CASE("processes share a host's cores, unless each was bound to its own") {
  CHECK(share_of_cores(64, 64, 1) == 64);
  CHECK(share_of_cores(64, 64, 8) == 8);
  CHECK(share_of_cores(12, 96, 8) == 12);  // bound by a launcher
  CHECK(share_of_cores(16, 64, 8) == 2);   // a container of 16 cores
  CHECK(share_of_cores(2, 2, 8) == 1);
}

TEST_CASE("this process has some memory and a thread at least, and the text says what limits them") {
  CHECK(memory_limit(1).value > 0);
  CHECK(thread_limit(1).value >= 1);
  CHECK(thread_limit(1'000'000).value == 1);
  CHECK(limits_text({8 * kGiB, "cgroup"}, {4, "cpu.max"}) ==
        "8.00 GiB of memory (cgroup), 4 threads (cpu.max)");
  CHECK(limits_text({1, "a"}, {1, "b"}) == "1 B of memory (a), 1 thread (b)");
  CHECK(memory_text({8 * kGiB, ""}) == "8.00 GiB");
  const test::ScratchDirectory nothing;  // a machine without /proc and /sys
  const HostFacts facts = host_facts(nothing.path());
  CHECK(memory_limit(1, facts).value > 0);
  CHECK(thread_limit(1, facts).value >= 1);
}

TEST_CASE("Slurm's memory counts within a job, in its units") {
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  CHECK(slurm_memory({{"SLURM_MEM_PER_NODE", "4096"}}) == 4 * kGiB);
  CHECK(slurm_memory({{"SLURM_MEM_PER_NODE", "4096M"}}) == 4 * kGiB);
  CHECK(slurm_memory({{"SLURM_MEM_PER_NODE", "8G"}}) == 8 * kGiB);
  CHECK(slurm_memory({{"SLURM_MEM_PER_NODE", "2048K"}}) == 2 * kMebibyte);
  CHECK(slurm_memory({{"SLURM_MEM_PER_CPU", "512"}, {"SLURM_CPUS_ON_NODE", "16"}}) == 8 * kGiB);
  CHECK(!slurm_memory({{"SLURM_MEM_PER_CPU", "512"}}));
  CHECK(slurm_memory({{"SLURM_MEM_PER_NODE", "999999999T"}}) == INT64_MAX);
  for (const char* odd : {"", "0", "0G", "-1", "G", "4 G", "4.5G", "1234567890", "all", "4GB", "0x10"})
    CHECK(!slurm_memory({{"SLURM_MEM_PER_NODE", odd}}));
  const SlurmJob outside({{"SLURM_MEM_PER_NODE", "4096"}, {"SLURM_CPUS_PER_TASK", "2"}});
  CHECK(!slurm_limits().memory);
  CHECK(!slurm_limits().cpus_per_task);
}

TEST_CASE("lists of processors are read as Linux writes them, and nothing else") {
  CHECK(parse_processor_list("0\n") == Numbers{0});
  CHECK(parse_processor_list("0-2,5,8191") == Numbers{0, 1, 2, 5, 8191});
  for (const char* odd : {"", "\n", "-", "0-", "-1", "1-0", "0,", ",0", "0,0", "1,0", "0-1,1", "8192",
                          "0-8192", "99999999999999999999", "0 1", "0x1", "0-1-2", "a"})
    CHECK(!parse_processor_list(odd));
}

TEST_CASE("hyperthreads of a core count once; a processor of unknown topology is a core") {
  const test::ScratchDirectory root;
  const auto put = [&](int number, const std::string& siblings) {
    const fs::path directory = root / ("sys/devices/system/cpu/cpu" + std::to_string(number) + "/topology");
    fs::create_directories(directory);
    test::put(directory / "thread_siblings_list", siblings);
  };
  CHECK(physical_cores({0, 1, 2, 3}, root.path()) == 4);
  for (const int number : {0, 1, 2, 3}) put(number, number % 2 == 0 ? "0,2\n" : "1,3\n");
  CHECK(physical_cores({0, 1, 2, 3}, root.path()) == 2);
  CHECK(physical_cores({1, 3}, root.path()) == 1);
  CHECK(physical_cores({2, 3}, root.path()) == 2);
  put(1, "1-");
  put(3, std::string(100'000, '1'));
  CHECK(physical_cores({0, 1, 2, 3}, root.path()) == 3);
  CHECK(physical_cores({}, root.path()) == 0);

  test::put(root / "sys/devices/system/cpu/online", "0-3\n");
  CHECK(online_processors(root.path()) == Numbers{0, 1, 2, 3});
  CHECK(host_facts(root.path()).cores == 3);
  test::put(root / "sys/devices/system/cpu/online", "all");
  CHECK(online_processors(root.path()).empty());
}

TEST_CASE("a share of processors has whole cores, and nodes of its own where they divide evenly") {
  const test::ScratchDirectory root;
  const auto share = [&](const Numbers& processors, int64_t processes) {
    std::vector<Numbers> shares;
    for (int64_t place = 0; place < processes; ++place)
      shares.push_back(share_of_processors(processors, place, processes, root.path()));
    return shares;
  };
  const Numbers all = {0, 1, 2, 3, 4, 5, 6, 7};
  CHECK(share(all, 2) == std::vector<Numbers>{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(numa_nodes_of(all, root.path()).empty());
  // Two hyperthreads a core, four apart; cores take turns among two nodes.
  for (const int64_t number : all) {
    const auto topology = root / ("sys/devices/system/cpu/cpu" + std::to_string(number) + "/topology");
    fs::create_directories(topology);
    test::put(topology / "thread_siblings_list",
              std::to_string(number % 4) + "," + std::to_string(number % 4 + 4) + "\n");
  }
  for (const auto& [node, list] : {std::pair("0", "0,2,4,6\n"), std::pair("1", "1,3,5,7\n")}) {
    const auto folder = root / (std::string("sys/devices/system/node/node") + node);
    fs::create_directories(folder);
    test::put(folder / "cpulist", list);
  }
  test::put(root / "sys/devices/system/node/online", "0-1\n");
  CHECK(numa_nodes_of(all, root.path()) == Numbers{0, 1});
  CHECK(numa_nodes_of({1, 5}, root.path()) == Numbers{1});
  CHECK(share(all, 2) == std::vector<Numbers>{{0, 2, 4, 6}, {1, 3, 5, 7}});
  CHECK(share(all, 4) == std::vector<Numbers>{{0, 4}, {2, 6}, {1, 5}, {3, 7}});
  CHECK(share(all, 3) == std::vector<Numbers>{{0, 4}, {2, 6}, {1, 5}});  // all have as many
  CHECK(share(all, 5).front() == all);                                   // not a core for each
  CHECK(share({0, 1, 2, 3}, 2) == std::vector<Numbers>{{0, 2}, {1, 3}});
  CHECK(processor_list_text({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8");
  CHECK(processor_list_text({}).empty());
}

TEST_CASE("an affinity that OpenMP may have set is not the process's") {
  test::Environment environment;
  for (const char* name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"})
    environment.set(name, nullptr);
  const Numbers all = allowed_processors();
  REQUIRE_FALSE(all.empty());
  CHECK_FALSE(is_bound_since_start());
  // Another thread is bound as OpenMP binds the first one, so that the tests after this one are not.
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(all.front()), &one);
    CHECK(::sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(is_bound_since_start() == (all.size() > 1));
    CHECK(allowed_processors() == Numbers{all.front()});
    environment.set("OMP_PROC_BIND", "false");
    CHECK(allowed_processors() == Numbers{all.front()});
    for (const char* name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"}) {
      environment.set("OMP_PROC_BIND", nullptr);
      environment.set(name, "close");
      CHECK(allowed_processors() == all);
      environment.set(name, nullptr);
    }
  }).join();
}

}  // namespace trainer
