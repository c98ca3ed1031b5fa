// SPDX-License-Identifier: Apache-2.0
#include "core/host/findings.h"

#include <filesystem>

#include "tests/catch.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

/// A clean machine: eight cores, all of them allowed.
HostFacts clean() {
  return {.memory = int64_t{64} << 30, .cores = 8, .allowed_cores = 8};
}

void put_in(const test::ScratchDirectory& root, const std::string& name, const std::string& text) {
  test::put_below(root, "sys/devices/system/cpu/cpu0/cpufreq/" + name, text);
}

TEST_CASE("a clean machine has no findings, nor has one whose files are damaged") {
  const test::ScratchDirectory root;
  CHECK(machine_findings(clean(), root.path()).empty());
  put_in(root, "scaling_governor", "performance\n");
  CHECK(machine_findings(clean(), root.path()).empty());
  put_in(root, "scaling_governor", std::string("\0power", 6));
  CHECK(machine_findings(clean(), root.path()).empty());
}

TEST_CASE("a governor that keeps the clock low is found, unless its driver does not") {
  const test::ScratchDirectory root;
  put_in(root, "scaling_governor", "powersave\n");
  put_in(root, "scaling_driver", "acpi-cpufreq\n");
  const auto found = machine_findings(clean(), root.path());
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].text, ContainsSubstring("governor powersave of acpi-cpufreq"));
  CHECK_THAT(found[0].mend, ContainsSubstring("cpupower frequency-set"));
  for (const char* driver : {"intel_pstate\n", "amd-pstate-epp\n"}) {
    put_in(root, "scaling_driver", driver);
    CHECK(machine_findings(clean(), root.path()).empty());
  }
}

TEST_CASE("huge pages that are off are found with their measured cost") {
  const test::ScratchDirectory root;
  const auto findings = [&](const std::string& setting) {
    test::put_below(root, "sys/kernel/mm/transparent_hugepage/enabled", setting);
    return machine_findings(clean(), root.path());
  };
  for (const char* fine : {"[always] madvise never\n", "always [madvise] never\n", "", "never", "\xff\n"})
    CHECK(findings(fine).empty());
  const auto found = findings("always madvise [never]\n");
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].text, ContainsSubstring("transparent huge pages are off"));
  CHECK_THAT(found[0].mend, ContainsSubstring("echo madvise | sudo tee /sys/kernel/mm/"));
  CHECK(found[0].cost == 0.03);
}

TEST_CASE("a limit of locked memory is found for ranks that use InfiniBand and may not exceed it") {
  const test::ScratchDirectory root;
  HostFacts facts = clean();
  facts.locked_memory = int64_t{8} << 20;
  const auto count = [&](int64_t ranks) { return rank_findings(facts, ranks, root.path()).size(); };
  const auto put_capabilities = [&](const std::string& line) {
    test::put_below(root, "proc/self/status", "Name:\ttrainer\n" + line);
  };
  put_capabilities("CapEff:\t0000000000000000\n");
  CHECK(count(2) == 0);  // no adapter
  test::put_below(root, "sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
  CHECK(count(1) == 0);
  const auto found = rank_findings(facts, 2, root.path());
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].text,
             ContainsSubstring("may lock 8.00 MiB of memory (ulimit -l)") && ContainsSubstring("InfiniBand"));
  CHECK_THAT(found[0].mend, ContainsSubstring("ulimit -l unlimited"));
  CHECK(found[0].cost == 0);
  facts.locked_memory = int64_t{1} << 30;
  CHECK(count(2) == 0);
  facts.locked_memory = std::nullopt;
  CHECK(count(2) == 0);
  facts.locked_memory = 0;
  CHECK(count(2) == 1);
  // CAP_IPC_LOCK, as root has it; then damaged lines.
  for (const char* line : {"CapEff:\t0000000000004000\n", "CapEff:\t000001ffffffffff\n", "", "CapEff:\t",
                           "CapEff:\tx\n", "CapEff:\tffffffffffffffffff\n"}) {
    put_capabilities(line);
    CHECK(count(2) == 0);
  }
}

TEST_CASE("limits below the machine are found with their cost, the worst first") {
  const test::ScratchDirectory root;
  HostFacts facts = clean();
  facts.cgroup = {.memory = int64_t{8} << 30, .cpus = 2.0, .cpus_file = "cpu.max"};
  facts.allowed_cores = 4;
  auto found = machine_findings(facts, root.path());
  REQUIRE(found.size() == 3);
  CHECK_THAT(found[0].text, ContainsSubstring("8.00 GiB of this machine's 64.0 GiB"));
  CHECK_THAT(found[1].text, ContainsSubstring("2 of 4 cores (cpu.max)"));
  CHECK(found[1].cost == 0.5);
  facts.cgroup.cpus = 3.0;
  found = machine_findings(facts, root.path());
  sort_worst_first(found);
  CHECK_THAT(found[0].text, ContainsSubstring("4 of 8 cores (affinity)"));
  CHECK(found[1].cost == 0.25);
  CHECK(found[2].cost == 0);
  facts.cgroup = {.memory = int64_t{128} << 30, .cpus = 64.0};
  facts.allowed_cores = 8;
  CHECK(machine_findings(facts, root.path()).empty());
}

TEST_CASE("a folder is measured without leaving anything; slow and full ones are found") {
  const test::ScratchDirectory folder;
  const FolderSpeed speed = measure_folder(folder.path(), int64_t{1} << 20);
  CHECK(speed.seconds > 0);
  CHECK(speed.bytes == int64_t{1} << 20);
  CHECK(speed.free_bytes > 0);
  CHECK(folder.names().empty());
  CHECK(folder_findings("runs", {.bytes = 64e6, .seconds = 0.5, .free_bytes = 1e12}).empty());
  const auto found = folder_findings("runs", {.bytes = 64e6, .seconds = 6.4, .free_bytes = 1e9});
  REQUIRE(found.size() == 2);
  CHECK_THAT(found[0].text, ContainsSubstring("the disk of runs has 954 MiB left"));
  CHECK_THAT(found[1].text, ContainsSubstring("runs takes 10 MB/s") && ContainsSubstring("(64 MB in 6.4 s)"));
  CHECK(test::error_text(ExitCode::io, [] {
          measure_folder("/no/such/folder");
        }).starts_with("/no/such/folder: "));
}

TEST_CASE("a folder is measured for a limited time, with the bytes that were written until then") {
  const test::ScratchDirectory folder;
  const FolderSpeed speed = measure_folder(folder.path(), int64_t{64} << 20, 0);
  CHECK(speed.bytes == int64_t{1} << 19);
  CHECK(speed.seconds > 0);
  CHECK(folder.names().empty());
}

}  // namespace
}  // namespace trainer
