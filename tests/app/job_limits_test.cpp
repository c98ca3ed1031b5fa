// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include "tests/app/command.h"
#include "tests/sanitized.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

/// The variables of a job with other limits than the test's own.
std::string in_job(const std::string& variables) {
  return "env -u SLURM_MEM_PER_NODE -u SLURM_MEM_PER_CPU -u SLURM_CPUS_PER_TASK SLURM_JOB_ID=12 " +
         variables + " \"$TRAINER\" ";
}

/// The doctor's words after this one.
std::string found(const Workspace& workspace, const std::string& command, const std::string& what) {
  const Outcome outcome = run_shell(command + "doctor | sed -n 's/^  " + what + " *//p'", workspace.path());
  CHECK(outcome.code == 0);
  return outcome.output;
}

}  // namespace

TEST_CASE("a run that does not fit a job's memory is refused with 71, both numbers and the limit's name") {
  const Workspace workspace;
  workspace.write("r.yaml", kSmallRecipe);
  const std::string run = "--config r.yaml run.output_dir=run run.max_wall_time=1h";
  const std::string job = in_job("SLURM_MEM_PER_NODE=16");
  for (const char* device : {"", " device.memory=64GiB"}) {  // a recipe cannot lift the limit
    const Outcome refused = run_shell(job + run + device, workspace.path());
    CHECK(refused.code == 71);
    CHECK_THAT(refused.errors, ContainsSubstring("host: 16.0 MiB of memory (SLURM_MEM_PER_NODE), "));
    CHECK_THAT(refused.errors, ContainsSubstring(" MiB, the device has 16.0 MiB (SLURM_MEM_PER_NODE):\n"));
    CHECK(!std::filesystem::exists(workspace.path() / "run"));
  }
  const Outcome smaller = run_shell(job + run + " device.memory=8MiB", workspace.path());
  CHECK(smaller.code == 71);
  CHECK_THAT(smaller.errors, ContainsSubstring("device.memory has 8.00 MiB:\n"));

  const Outcome plan = run_shell(job + "plan --json --config r.yaml parallelism.data=2", workspace.path());
  CHECK(plan.code == 0);
  const auto memory = nlohmann::json::parse(plan.output)["memory"];
  CHECK(memory["available_bytes"] == int64_t{8} << 20);
  CHECK(memory["limit"] == "SLURM_MEM_PER_NODE, shared by 2 processes");
  CHECK_THAT(
      run_shell(job + "plan --config r.yaml", workspace.path()).output,
      ContainsSubstring(" of 16.0 MiB (") && ContainsSubstring(" %; SLURM_MEM_PER_NODE): DOES NOT FIT\n"));
}

TEST_CASE("training.micro_batch_size=auto fits a job's memory") {
  const Workspace workspace;
  workspace.write("r.yaml", std::string(kSmallRecipe) + "device: {type: cpu}\n");
  const std::string plan =
      "plan --json --config r.yaml training.micro_batch_size=auto "
      "training.global_batch_size=32768 data.synthetic.train_samples=32768";
  const auto micro_batch = [&](const std::string& command) {
    const Outcome outcome = run_shell(command + plan, workspace.path());
    REQUIRE(outcome.code == 0);
    const auto json = nlohmann::json::parse(outcome.output);
    CHECK(json["memory"]["peak_bytes"] <= json["memory"]["available_bytes"]);
    return json["micro_batch_size"].get<int64_t>();
  };
  const int64_t small = micro_batch(in_job("SLURM_MEM_PER_CPU=64 SLURM_CPUS_ON_NODE=2")),
                large = micro_batch(in_job("SLURM_MEM_PER_CPU=64 SLURM_CPUS_ON_NODE=4"));
  CHECK(small >= 1);
  CHECK(small < large);
}

TEST_CASE("threads follow affinity and Slurm, and the doctor says which of them counts") {
  const Workspace workspace;
  const std::string alone = in_job("");
  CHECK_THAT(found(workspace, alone, "memory"), ContainsSubstring("iB ("));
  if (found(workspace, alone, "threads").starts_with("1 ")) return;
  CHECK(found(workspace, in_job("SLURM_CPUS_PER_TASK=1"), "threads") ==
        "1 may be used (SLURM_CPUS_PER_TASK)\n");
  CHECK_THAT(found(workspace, in_job("SLURM_CPUS_PER_TASK=0"), "threads"), !StartsWith("1 "));
  const std::string first =
      "taskset -c \"$(sed -nE 's/^Cpus_allowed_list:[^0-9]*([0-9]+).*/\\1/p' /proc/self/status)\" ";
  CHECK(found(workspace, first + alone, "threads") == "1 may be used (affinity)\n");
  for (const char* binding : {"OMP_PROC_BIND=true", "OMP_PLACES=cores", "GOMP_CPU_AFFINITY=0-1"})
    CHECK(found(workspace, first + in_job(binding), "threads") == "1 may be used (affinity)\n");
  // Who asks for more threads gets them, hyperthreads or not.
  workspace.write("r.yaml", std::string(kSmallRecipe) + "device: {type: cpu, threads: 3}\n");
  CHECK_THAT(
      run_shell(in_job("SLURM_CPUS_PER_TASK=1") + "--config r.yaml run.max_wall_time=1h", workspace.path())
          .errors,
      ContainsSubstring(", 3 threads (device.threads)\n"));
}

TEST_CASE("a run that resumes where there are fewer threads keeps the checkpoint's, and says so") {
  const Workspace workspace;
  workspace.write("r.yaml", std::string(kSmallRecipe) + "device: {type: cpu}\n");
  const std::string run = "--config r.yaml run.max_wall_time=1h run.output_dir=run ";
  if (found(workspace, in_job(""), "threads").starts_with("1 ")) return;
  REQUIRE(run_shell(in_job("") + run + "training.max_duration=1ep", workspace.path()).code == 0);
  const Outcome resumed = run_shell(in_job("SLURM_CPUS_PER_TASK=1") + run +
                                        "training.max_duration=2ep run.allow_changes=[training.max_duration]",
                                    workspace.path());
  CHECK(resumed.code == 0);
  CHECK_THAT(resumed.errors,
             ContainsSubstring(" threads (the checkpoint's; SLURM_CPUS_PER_TASK allows 1)\n"));
}

TEST_CASE("a limit of address space counts before it is reached") {
  if (kIsSanitized) return;  // sanitizers reserve more than there is
  const Workspace workspace;
  workspace.write("r.yaml", std::string(kSmallRecipe) + "device: {type: cpu}\n");
  const Outcome outcome = run_shell(
      "prlimit --as=1073741824 \"$TRAINER\" --config r.yaml run.output_dir=run "
      "training.global_batch_size=131072 data.synthetic.train_samples=131072",
      workspace.path());
  CHECK(outcome.code == 71);
  CHECK_THAT(outcome.errors,
             ContainsSubstring("iB (ulimit -v):\n") && ContainsSubstring("\ntry training.micro_batch_size="));
  CHECK(!std::filesystem::exists(workspace.path() / "run"));
}

}  // namespace trainer
