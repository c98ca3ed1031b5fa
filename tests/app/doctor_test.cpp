// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include "core/engine/device_description.h"
#include "core/host/limits.h"
#include "tests/app/command.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Matches;

}  // namespace

TEST_CASE("the doctor tells what the machine has, with a reason for what is missing") {
  const Workspace workspace;
  const Outcome outcome = run_trainer({"doctor"}, workspace.path());
  CHECK(outcome.code == 0);
  CHECK(outcome.errors.empty());
  CHECK_THAT(outcome.output, ContainsSubstring("device.type=cpu") && ContainsSubstring("processor") &&
                                 ContainsSubstring(" may be used") && ContainsSubstring("oneDNN"));
  const size_t cuda = outcome.output.find("device.type=cuda\n");
  REQUIRE(cuda != std::string::npos);
  const std::string rest = outcome.output.substr(cuda + 17);
  CHECK_THAT(rest, ContainsSubstring("\n  GPU ") || ContainsSubstring("  problem "));
}

TEST_CASE("the doctor lists what could be mended, as text and as JSON; --strict fails for what costs much") {
  const Workspace workspace;
  const Outcome text = run_trainer({"doctor"}, workspace.path());
  CHECK_THAT(text.output, ContainsSubstring("\nfindings\n  "));
  const Outcome json = run_trainer({"doctor", "--json"}, workspace.path());
  CHECK(json.code == 0);
  const auto parsed = nlohmann::json::parse(json.output);
  CHECK(parsed["device.type=cpu"].size() > 3);
  for (const auto& finding : parsed["findings"]) {
    CHECK_FALSE(finding["text"].get<std::string>().empty());
    CHECK_FALSE(finding["mend"].get<std::string>().empty());
  }
  CHECK(std::filesystem::is_empty(workspace.path()));

  const Outcome bound =
      run_shell("taskset -c \"$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')\" \"$TRAINER\" doctor --strict",
                workspace.path());
  const bool has_several = thread_limit(1).value > 1;
  CHECK(bound.code == (has_several ? 69 : 0));
  if (has_several) CHECK_THAT(bound.output, ContainsSubstring("cores (affinity) (costs up to "));
}

TEST_CASE("the doctor names what several processes need, with a reason for what is missing") {
  const Workspace workspace;
  const auto doctor = [&](const std::string& environment) {
    const Outcome outcome = run_shell("env " + environment + " \"$TRAINER\" doctor", workspace.path());
    CHECK(outcome.code == 0);
    CHECK(outcome.errors.empty());
    return outcome.output;
  };
  CHECK_THAT(doctor(""), ContainsSubstring("\nseveral processes\n  launched as      one process\n"));
  CHECK_THAT(
      // Open MPI unloads its components before the end, so that a list of known leaks cannot name them.
      doctor("ASAN_OPTIONS=detect_leaks=0 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 "
             "OMPI_COMM_WORLD_LOCAL_RANK=0"),
      ContainsSubstring("launched as      rank 1 of 4, number 0 on this host (OMPI_COMM_WORLD_RANK)\n"));
  CHECK_THAT(doctor("RANK=0 WORLD_SIZE=2"),
             ContainsSubstring("launched as      the environment has only a part of RANK"));

  workspace.write("bin/mpirun", "");
  CHECK_THAT(doctor("PATH=bin"), ContainsSubstring("mpirun           neither mpirun nor mpiexec is in PATH"));
  std::filesystem::permissions(workspace.path() / "bin/mpirun", std::filesystem::perms::owner_all);
  CHECK_THAT(doctor("PATH=/nowhere:bin"), ContainsSubstring("mpirun           bin/mpirun\n"));
}

TEST_CASE("the doctor tells which MPI the program was built for, and which NCCL there is") {
  const Workspace workspace;
  const auto doctor = [&](const std::string& environment, const char* program = "\"$TRAINER\"") {
    return run_shell(environment + " " + program + " doctor", workspace.path()).output;
  };
  if (std::filesystem::exists(std::filesystem::path(TRAINER_BINARY).parent_path() /
                              "libtrainer_mpi_openmpi.so"))
    CHECK_THAT(doctor(""), Matches("[^]*\n  MPI              Open MPI v[0-9.]+: [^ ]*libmpi.so.40 "
                                   "\\([^\n]*\\), libtrainer_mpi_openmpi.so\n[^]*"));
  // The launcher's own MPI comes before another release on the loader's path.
  const std::filesystem::path mpich = TRAINER_SOURCE_DIR "/build/mpich";
  if (std::filesystem::exists(mpich / "bin/mpiexec")) {
    const std::string under_mpich = doctor((mpich / "bin/mpiexec").string() + " -n 1");
    CHECK_THAT(under_mpich, ContainsSubstring((mpich / "lib/libmpi.so.12").string() + " (beside ") &&
                                ContainsSubstring(
                                    "hydra_pmi_proxy, which started this process), libtrainer_mpi_mpich.so"));
  }
  CHECK_THAT(doctor("TRAINER_MPI=/nowhere/libfast.so"),
             ContainsSubstring("does not have the name of an MPI library"));
  CHECK_THAT(
      doctor("TRAINER_MPI=/nowhere/libmpi.so.12 OMPI_COMM_WORLD_RANK=0"),
      ContainsSubstring("is of MPICH, but Open MPI's mpirun (OMPI_COMM_WORLD_RANK) started this process"));
  workspace.write("alone/libnccl.so.2",
                  "no library, but long enough to be looked into for the mark of one, which is not here");
  REQUIRE(run_shell("cp \"$TRAINER\" alone", workspace.path()).code == 0);
  const std::string alone = doctor("LD_LIBRARY_PATH=alone", "alone/trainer");
  CHECK_THAT(alone, ContainsSubstring("\n  MPI              libtrainer_mpi_openmpi.so is neither in "));
  CHECK_THAT(alone, ContainsSubstring("\n  NCCL             alone/libnccl.so.2: "));

  std::filesystem::copy_file(TRAINER_FAKE_NCCL, workspace.path() / "alone/libnccl.so.2",
                             std::filesystem::copy_options::overwrite_existing);
  CHECK_THAT(doctor("LD_LIBRARY_PATH=alone FAKE_VERSION=22809"),
             ContainsSubstring("\n  NCCL             2.28.9\n"));
  CHECK_THAT(doctor("LD_LIBRARY_PATH=alone FAKE_VERSION=2804"),
             ContainsSubstring("\n  NCCL             2.8.4\n"));
  CHECK_THAT(doctor("LD_LIBRARY_PATH=alone"),
             ContainsSubstring("libnccl.so.2 does not tell its version (ncclGetVersion)"));
}

TEST_CASE("a GPU's description is written where there is a GPU, else the reason, exit 69") {
  const Workspace workspace;
  const Outcome outcome = run_trainer({"doctor", "--device-json", "gpu.json"}, workspace.path());
  if (outcome.code == 0) {
    CHECK(read_device_description(workspace.read("gpu.json"), "gpu.json").compute_capability >= 80);
  } else {
    CHECK(outcome.code == 69);
    CHECK_THAT(outcome.errors, ContainsSubstring("there is no GPU to describe: "));
    CHECK(!std::filesystem::exists(workspace.path() / "gpu.json"));
  }
}

TEST_CASE("under a launcher the doctor prints one report, with a line for each rank") {
  if (!has_mpi()) return;
  const Workspace workspace;
  const Outcome outcome = run_ranks(under_mpirun(3, "doctor"), workspace.path());
  INFO(outcome.errors);
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.output,
             Matches("trainer [^]*\nranks\n +host +cores +threads +NUMA +address +GPU +MPI[^]*"
                     "\n  rank 0 +[^]*\n  rank 1 +[^]*\n  rank 2 +[^\n]*Open MPI[^]*"));
  CHECK(outcome.output.find("\nseveral processes\n") == outcome.output.rfind("\nseveral processes\n"));
  if (thread_limit(1).value < 3)
    CHECK_THAT(outcome.output,
               ContainsSubstring("the 3 ranks on ") && ContainsSubstring(" have 3 threads on "));
}

}  // namespace trainer
