// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/identity.h"

#include <map>
#include "tests/catch.h"

#include "core/base/error.h"
#include "tests/host/environment.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Variables = std::map<std::string, std::string>;

constexpr const char* kAll[] = {"RANK",
                                "WORLD_SIZE",
                                "LOCAL_RANK",
                                "LOCAL_WORLD_SIZE",
                                "MASTER_ADDR",
                                "MASTER_PORT",
                                "OMPI_COMM_WORLD_RANK",
                                "OMPI_COMM_WORLD_SIZE",
                                "OMPI_COMM_WORLD_LOCAL_RANK",
                                "OMPI_COMM_WORLD_LOCAL_SIZE",
                                "PMI_RANK",
                                "PMI_SIZE",
                                "PMI_LOCAL_RANK",
                                "PMI_LOCAL_SIZE",
                                "MPI_LOCALRANKID",
                                "MPI_LOCALNRANKS",
                                "SLURM_PROCID",
                                "SLURM_STEP_NUM_TASKS",
                                "SLURM_LOCALID",
                                "SLURM_STEP_ID",
                                "SLURM_NTASKS"};

const Variables kTorchrun = {{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "node3"},
                             {"MASTER_PORT", "29500"}};
const Variables kMpirun = {{"OMPI_COMM_WORLD_RANK", "2"},
                           {"OMPI_COMM_WORLD_SIZE", "4"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Variables kMpich = {
    {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
const Variables kPals = {
    {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"PMI_LOCAL_RANK", "2"}, {"PMI_LOCAL_SIZE", "3"}};
const Variables kSrun = {
    {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_LOCALID", "0"}};

Variables with(Variables variables, const Variables& others) {
  for (const auto& [name, value] : others) variables[name] = value;
  return variables;
}

RankIdentity identity_with(const Variables& variables) {
  test::Environment environment;
  for (const char* name : kAll) environment.set(name, nullptr);
  for (const auto& [name, value] : variables) environment.set(name.c_str(), value.c_str());
  return launched_as();
}

std::string refusal_with(const Variables& variables) {
  try {
    identity_with(variables);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    return error.what();
  }
  return "nothing was refused";
}

}  // namespace

TEST_CASE("the launcher's variables give the rank, the most explicit ones first") {
  const RankIdentity torchrun{5, 8, 1, 4, "RANK", "node3", 29500};
  const RankIdentity mpirun{2, 4, 0, 2, "OMPI_COMM_WORLD_RANK", "", 0};
  const RankIdentity srun{1, 2, 0, 1, "SLURM_PROCID", "", 0};
  CHECK(identity_with(kTorchrun) == torchrun);
  CHECK(identity_with(kMpirun) == mpirun);
  CHECK(identity_with(kSrun) == srun);
  const Variables same = with(kMpirun, {{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "8"}});
  CHECK(identity_with(with(kSrun, with(same, kTorchrun))) == torchrun);
  CHECK(identity_with(with(kSrun, kMpirun)) == mpirun);
}

TEST_CASE(
    "a rank of MPICH's mpirun is one, within a Slurm job too, and a task of srun that speaks PMI is srun's") {
  const RankIdentity mpich{3, 4, 1, 2, "PMI_RANK", "", 0};
  CHECK(identity_with(kMpich) == mpich);
  CHECK(identity_with(with(kSrun, kMpich)) == mpich);
  CHECK(identity_with(kPals) == RankIdentity{3, 4, 2, 3, "PMI_RANK", "", 0});
  CHECK(identity_with(with(kSrun, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})) ==
        RankIdentity{1, 2, 0, 1, "SLURM_PROCID", "", 0});
  CHECK(identity_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}).is_alone());
  CHECK_THAT(refusal_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}),
             ContainsSubstring("PMI_LOCAL_RANK is missing"));
}

TEST_CASE("variables of two launchers that name different ranks are refused, with both") {
  const auto refuse = [](const Variables& variables) {
    CHECK_THROWS_MATCHES(identity_with(variables), Error,
                         Catch::Matchers::Predicate<Error>(
                             [](const Error& error) { return error.code() == ExitCode::no_device; }));
  };
  refuse(with(kMpirun, kTorchrun));
  refuse(with(kMpirun, kMpich));
  refuse(with(kMpirun, {{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  CHECK(identity_with({{"WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}})
            .is_alone());
  CHECK_THROWS_WITH(identity_with(with(kMpirun, kTorchrun)),
                    ContainsSubstring("RANK=5 with WORLD_SIZE=8, and OMPI_COMM_WORLD_RANK=2 with "
                                      "OMPI_COMM_WORLD_SIZE=4"));
}

TEST_CASE("a process is alone without a launcher, in a batch script, and as the only rank") {
  CHECK(identity_with({}) == RankIdentity{});
  CHECK(identity_with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "0"}}) ==
        RankIdentity{});
  CHECK(identity_with({{"MASTER_ADDR", "node3"}, {"MASTER_PORT", "29500"}}) == RankIdentity{});
  CHECK(identity_with({{"RANK", ""}, {"WORLD_SIZE", ""}}) == RankIdentity{});
  CHECK(identity_with({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).is_alone());
  CHECK(identity_with({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}}).is_alone());
}

TEST_CASE("a step of Slurm may name the address itself") {
  const RankIdentity identity =
      identity_with(with(kSrun, {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "40000"}}));
  CHECK(identity.address == "10.0.0.1");
  CHECK(identity.port == 40000);
  CHECK(identity.source == "SLURM_PROCID");
}

TEST_CASE("Slurm lists the tasks of every node of a step") {
  const auto tasks = [](const char* text) {
    return identity_with({{"SLURM_STEP_ID", "0"},
                          {"SLURM_PROCID", "5"},
                          {"SLURM_STEP_NUM_TASKS", "8"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_STEP_TASKS_PER_NODE", text}})
        .local_ranks;
  };
  CHECK(tasks("4(x2)") == 4);
  CHECK(tasks("3(x2),2") == 3);
  CHECK(tasks("2,6") == 6);
  CHECK(tasks("900") == 8);
  CHECK(tasks("x") == 2);
}

TEST_CASE("an incomplete identity is refused with the missing variable") {
  CHECK_THAT(refusal_with({{"RANK", "0"}}), ContainsSubstring("WORLD_SIZE is missing"));
  CHECK_THAT(refusal_with({{"WORLD_SIZE", "2"}}), ContainsSubstring("RANK is missing"));
  CHECK_THAT(refusal_with({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), ContainsSubstring("LOCAL_RANK is missing"));
  CHECK_THAT(refusal_with({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"MASTER_ADDR", "a"}}),
             ContainsSubstring("MASTER_PORT"));
  CHECK_THAT(refusal_with({{"OMPI_COMM_WORLD_RANK", "1"}}),
             ContainsSubstring("OMPI_COMM_WORLD_SIZE is missing"));
  CHECK_THAT(refusal_with({{"SLURM_STEP_ID", "3"}}), ContainsSubstring("SLURM_PROCID is missing"));
}

TEST_CASE("invalid or contradicting numbers are refused with their bounds") {
  for (const char* rank : {"-1", "8", "x", "1x", " 1", "99999999999999999999"}) {
    CHECK_THAT(refusal_with(with(kTorchrun, {{"RANK", rank}})), ContainsSubstring("from 0 to 7"));
  }
  CHECK_THAT(refusal_with(with(kTorchrun, {{"WORLD_SIZE", "0"}})), ContainsSubstring("WORLD_SIZE=0"));
  CHECK_THAT(refusal_with(with(kTorchrun, {{"LOCAL_RANK", "6"}})), ContainsSubstring("from 0 to 5"));
  CHECK_THAT(refusal_with(with(kTorchrun, {{"MASTER_PORT", "65536"}})), ContainsSubstring("from 1 to 65535"));
}

}  // namespace trainer
