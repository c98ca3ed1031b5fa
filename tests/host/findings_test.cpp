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
  const std::filesystem::path file = root / ("sys/devices/system/cpu/cpu0/cpufreq/" + name);
  std::filesystem::create_directories(file.parent_path());
  test::put(file, text);
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
  CHECK(speed.free_bytes > 0);
  CHECK(folder.names().empty());
  CHECK(folder_findings("runs", {.bytes = 64e6, .seconds = 0.5, .free_bytes = 1e12}).empty());
  const auto found = folder_findings("runs", {.bytes = 64e6, .seconds = 6.4, .free_bytes = 1e9});
  REQUIRE(found.size() == 2);
  CHECK_THAT(found[0].text, ContainsSubstring("the disk of runs has 954 MiB left"));
  CHECK_THAT(found[1].text, ContainsSubstring("runs takes 10 MB/s"));
  CHECK(test::error_text(ExitCode::io, [] {
          measure_folder("/no/such/folder");
        }).starts_with("/no/such/folder: "));
}

}  // namespace
}  // namespace trainer
