// SPDX-License-Identifier: Apache-2.0
#include "core/host/gpu_findings.h"

#include <filesystem>

#include "tests/catch.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr const char* kBusId = "0000:3b:00.0";

/// A machine with a GPU of generation 5 in such a slot, on node 1 of two, which has processors 4 to 7.
class GpuMachine {
 public:
  GpuMachine() {
    for (const char* name : {"current_link_width", "max_link_width"}) put(name, "16\n");
    for (const char* name : {"current_link_speed", "max_link_speed"}) put(name, "32.0 GT/s PCIe\n");
    put("numa_node", "1\n");
    put_slot("max_link_speed", "32.0 GT/s PCIe\n");
    put_file("sys/devices/system/node/node0/cpulist", "0-3\n");
    put_file("sys/devices/system/node/node1/cpulist", "4-7\n");
    std::filesystem::create_directories(root_ / "sys/bus/pci/devices");
    std::filesystem::create_directory_symlink(root_ / (kSlot + kBusId),
                                              root_ / (std::string("sys/bus/pci/devices/") + kBusId));
  }
  void put_file(const std::string& path, const std::string& text) { test::put_below(root_, path, text); }
  void put(const std::string& name, const std::string& text) { put_file(kSlot + kBusId + "/" + name, text); }
  void put_slot(const std::string& name, const std::string& text) { put_file(kSlot + name, text); }
  void remove(const std::string& path) { std::filesystem::remove_all(root_ / path); }

  std::vector<Finding> findings(const std::vector<int64_t>& processors = {0, 1, 2, 3, 4, 5, 6, 7}) const {
    return gpu_findings({"0000:3B:00.0"}, processors, root_.path());
  }

  const std::string kSlot = "sys/devices/pci0000:00/0000:00:01.0/";

 private:
  test::ScratchDirectory root_;
};

TEST_CASE("a clean GPU has no findings, nor has one whose files are absent or damaged") {
  GpuMachine machine;
  CHECK(machine.findings().empty());
  CHECK(machine.findings({7}).empty());
  for (const char* odd :
       {"", "\n", "x", "-1\n", "0\n", "255\n", "16 lanes", "99999999999999999999", "Unknown"}) {
    INFO(odd);
    for (const char* name : {"current_link_width", "max_link_speed", "numa_node"}) machine.put(name, odd);
    machine.put_slot("max_link_speed", odd);
    CHECK(machine.findings({0}).empty());
  }
  machine.put("current_link_width", "8\n");
  machine.put("max_link_width", "255\n");
  CHECK(machine.findings().empty());
  machine.remove("sys/devices");
  CHECK(machine.findings().empty());
  machine.remove("sys");
  CHECK(machine.findings().empty());
  CHECK(gpu_findings({}, {0}).empty());
}

TEST_CASE("a link with fewer lanes than its GPU has is found") {
  GpuMachine machine;
  machine.put("current_link_width", "8\n");
  const auto found = machine.findings();
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].text, ContainsSubstring("GPU 0 (0000:3b:00.0) is connected by 8 of its 16 PCIe lanes"));
  CHECK_THAT(found[0].mend, ContainsSubstring("lspci -vv -s 0000:3b:00.0"));
  CHECK(found[0].cost == 0);
}

TEST_CASE("a slot of a lower generation is found, but neither an idle GPU's link nor an emulated slot") {
  GpuMachine machine;
  machine.put("current_link_speed", "2.5 GT/s PCIe\n");
  CHECK(machine.findings().empty());
  machine.put_slot("max_link_speed", "8.0 GT/s PCIe\n");
  const auto found = machine.findings();
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].text, ContainsSubstring("has PCIe generation 5, but its slot allows generation 3") &&
                                ContainsSubstring("an idle GPU lowers its link further"));
  CHECK_THAT(found[0].mend, ContainsSubstring("a slot of generation 5"));
  machine.put_slot("max_link_speed", "8 GT/s\n");  // as Linux 4 writes it
  CHECK(machine.findings().size() == 1);
  machine.put_slot("max_link_speed", "64.0 GT/s PCIe\n");
  CHECK(machine.findings().empty());
  machine.put_slot("max_link_speed", "8.0 GT/s PCIe\n");
  machine.put_file("proc/cpuinfo", "flags\t\t: fpu vme hypervisor lahf_lm\n");
  CHECK(machine.findings().empty());
}

TEST_CASE("a GPU on a NUMA node without a processor that this process may use is found") {
  GpuMachine machine;
  const auto found = machine.findings({0, 1, 2, 3});
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].text, ContainsSubstring("is on NUMA node 1, but this process may only use processors"));
  CHECK_THAT(found[0].mend, ContainsSubstring("taskset -c 4-7") && ContainsSubstring("--gpu-bind=closest"));
  CHECK(machine.findings({3, 4}).empty());
  CHECK(machine.findings({}).empty());  // unknown
  for (const char* odd : {"", "\n", "4-", "all"}) {
    machine.put_file("sys/devices/system/node/node1/cpulist", odd);
    CHECK(machine.findings({0}).empty());
  }
}

}  // namespace
}  // namespace trainer
