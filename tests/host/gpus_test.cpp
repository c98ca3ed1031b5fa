// SPDX-License-Identifier: Apache-2.0
#include "core/host/gpus.h"

#include "tests/catch.h"

#include "tests/host/environment.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

constexpr const char* kVariables[] = {"CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS",
                                      "SLURM_JOB_ID"};

/// A machine with these files, and none of the variables.
struct Machine {
  explicit Machine(const std::vector<std::string>& files = {}) {
    for (const char* name : kVariables) environment.set(name, nullptr);
    for (const std::string& file : files) {
      fs::create_directories((root / file).parent_path());
      test::put(root / file, "");
    }
  }
  GpuSearch search() const { return find_gpu(root.path()); }

  test::ScratchDirectory root;
  test::Environment environment;
};

}  // namespace

TEST_CASE("a machine has a GPU where a GPU's own file is, not where only the driver's are") {
  CHECK(!Machine().search().found);
  CHECK(!Machine({"dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia", "dev/null"}).search().found);
  CHECK(Machine({"dev/nvidia0"}).search().found);
  const GpuSearch second = Machine({"dev/nvidiactl", "dev/nvidia11"}).search();
  CHECK(second.found);
  CHECK_THAT(second.reason, ContainsSubstring("dev/nvidia11 exists"));
  CHECK(!Machine({"dev/dxg"}).search().found);
  CHECK(Machine({"dev/dxg", "usr/lib/wsl/lib/libcuda.so.1"}).search().found);
}

TEST_CASE("a GPU whose driver is not loaded is none, and the reason says so") {
  const Machine machine;
  const fs::path device = machine.root / "sys/bus/pci/devices/0000:1b:00.0";
  fs::create_directories(device);
  test::put(device / "vendor", "0x10de\n");
  test::put(device / "class", "0x040300\n");  // its sound
  CHECK(machine.search().reason == "no GPU was found");
  test::put(device / "class", "0x030200\n");
  CHECK(!machine.search().found);
  CHECK_THAT(machine.search().reason, ContainsSubstring("is NVIDIA's driver loaded?"));
}

TEST_CASE("the GPUs of a process are those that it lists, else those with files") {
  Machine machine({"dev/nvidia0", "dev/nvidia1", "dev/nvidia11", "dev/nvidiactl"});
  CHECK(visible_gpus(machine.root.path()) == 3);
  machine.environment.set("CUDA_VISIBLE_DEVICES", "2,0");
  CHECK(visible_gpus(machine.root.path()) == 2);
  machine.environment.set("CUDA_VISIBLE_DEVICES", "-1");
  CHECK(visible_gpus(machine.root.path()) == 0);
  CHECK(visible_gpus(Machine().root.path()) == 0);
}

TEST_CASE("CUDA_VISIBLE_DEVICES hides all GPUs where its first entry is none") {
  Machine machine({"dev/nvidia0"});
  for (const char* none : {"", "-1", "NoDevFiles", "none,0"}) {
    machine.environment.set("CUDA_VISIBLE_DEVICES", none);
    const GpuSearch search = machine.search();
    CHECK(!search.found);
    CHECK(search.reason == std::string("CUDA_VISIBLE_DEVICES=") + none + " hides all GPUs");
  }
  for (const char* some : {"0", "1,0", "GPU-8a56a4bc", "MIG-1f5e"}) {
    machine.environment.set("CUDA_VISIBLE_DEVICES", some);
    CHECK(machine.search().found);
  }
  Machine bare;
  bare.environment.set("CUDA_VISIBLE_DEVICES", "0");
  CHECK(!bare.search().found);
}

TEST_CASE("GPUs that Slurm has allotted are there, whatever files are; another job's are not ours") {
  Machine machine;
  machine.environment.set("SLURM_JOB_GPUS", "0,1");
  CHECK(machine.search().found);
  CHECK(machine.search().reason == "SLURM_JOB_GPUS=0,1");
  machine.environment.set("SLURM_JOB_GPUS", "");
  CHECK(!machine.search().found);
  machine.environment.set("SLURM_STEP_GPUS", "3");
  CHECK(machine.search().reason == "SLURM_STEP_GPUS=3");

  // A file that cannot be opened, for root as well: it leads nowhere.
  Machine shared;
  fs::create_directories(shared.root / "dev");
  fs::create_symlink("/no/such/file", shared.root / "dev/nvidia0");
  CHECK(shared.search().found);
  shared.environment.set("SLURM_JOB_ID", "12");
  CHECK(!shared.search().found);
}

}  // namespace trainer
