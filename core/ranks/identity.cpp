// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "core/base/error.h"

namespace trainer {
namespace {

/// The variables of one launcher.
struct LauncherVariables {
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* local_ranks;  ///< the variable that gives it
  const char* only_with;    ///< a variable without which the others do not count; may be null
  bool only_for_ranks;      ///< false: also set for what another launcher starts on each node
};

constexpr std::array kLaunchers = {
    LauncherVariables{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", nullptr, true},
    LauncherVariables{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                      "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr, true},
    // MPICH's and Intel MPI's, before Slurm: within a job its own processes are a step of one task per node.
    LauncherVariables{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "MPI_LOCALRANKID", true},
    LauncherVariables{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr, "SLURM_STEP_ID",
                      false},
    // Other launchers with PMI, such as PALS. srun --mpi=pmi2 also sets the first two.
    LauncherVariables{"PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", nullptr, false},
};
constexpr const char* kAddress = "MASTER_ADDR";
constexpr const char* kPort = "MASTER_PORT";

/// A bound that keeps every product with the number of ranks from overflowing.
constexpr int64_t kMaxRanks = 1'000'000;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ExitCode::usage, text +
                                   "; a launcher such as srun, mpirun or torchrun sets them, and a single "
                                   "process needs none of them");
}

int64_t number_in(const char* name, int64_t low, int64_t high) {
  const std::string text = variable(name);
  int64_t value = 0;
  const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || *stop != '\0' || text.empty() || value < low || value > high)
    refuse(fmt::format("{}={} must be a whole number from {} to {}", name, text, low, high));
  return value;
}

bool is_set(const char* name) {
  return !variable(name).empty();
}

bool counts(const LauncherVariables& launcher) {
  if (launcher.only_with != nullptr) return is_set(launcher.only_with);
  return is_set(launcher.rank) || is_set(launcher.ranks) || is_set(launcher.local_rank);
}

/// Slurm lists the tasks of the step's nodes, "4(x2),3". If the nodes differ, the largest number is assumed.
int64_t tasks_here(const RankIdentity& identity) {
  const std::string text = variable("SLURM_STEP_TASKS_PER_NODE");
  int64_t most = identity.local_rank + 1;
  for (size_t at = 0; at < text.size();) {
    int64_t tasks = 0;
    std::from_chars(text.data() + at, text.data() + text.size(), tasks);
    most = std::max(most, std::min(tasks, identity.ranks));
    const size_t comma = text.find(',', at);
    at = comma == std::string::npos ? text.size() : comma + 1;
  }
  return most;
}

RankIdentity identity_from(const LauncherVariables& launcher) {
  // Some environments set a size of 1 for every process.
  if (variable(launcher.ranks) == "1" && (!is_set(launcher.rank) || variable(launcher.rank) == "0"))
    return {.source = launcher.rank};
  for (const char* needed : {launcher.rank, launcher.ranks, launcher.local_rank}) {
    if (is_set(needed)) continue;
    refuse(fmt::format("the environment has only a part of {}, {} and {}: {} is missing", launcher.rank,
                       launcher.ranks, launcher.local_rank, needed));
  }
  RankIdentity identity{.ranks = number_in(launcher.ranks, 1, kMaxRanks), .source = launcher.rank};
  identity.rank = number_in(launcher.rank, 0, identity.ranks - 1);
  identity.local_rank = number_in(launcher.local_rank, 0, identity.rank);
  if (launcher.local_ranks != nullptr && is_set(launcher.local_ranks)) {
    identity.local_ranks = number_in(launcher.local_ranks, identity.local_rank + 1, identity.ranks);
  } else if (launcher.local_ranks == nullptr) {
    identity.local_ranks = tasks_here(identity);
  }
  return identity;
}

/// Throws Error (exit 69) if the variables of another launcher give another rank or size.
void require_agreement(const LauncherVariables& chosen, const RankIdentity& identity) {
  for (const LauncherVariables& other : kLaunchers) {
    if (&other == &chosen || !other.only_for_ranks || !counts(other)) continue;
    if (!is_set(other.rank) || !is_set(other.ranks)) continue;
    const std::string rank = variable(other.rank), ranks = variable(other.ranks);
    if (rank == std::to_string(identity.rank) && ranks == std::to_string(identity.ranks)) continue;
    throw Error(
        ExitCode::no_device,
        fmt::format(
            "two launchers give this process different ranks: {}={} with {}={}, and {}={} with {}={}; "
            "unset the variables of the launcher that did not start it",
            chosen.rank, identity.rank, chosen.ranks, identity.ranks, other.rank, rank, other.ranks, ranks));
  }
}

}  // namespace

RankIdentity launched_as() {
  for (const LauncherVariables& launcher : kLaunchers) {
    if (!counts(launcher)) continue;
    RankIdentity identity = identity_from(launcher);
    require_agreement(launcher, identity);
    if (identity.is_alone()) return identity;
    identity.address = variable(kAddress);
    if (is_set(kPort)) identity.port = static_cast<uint16_t>(number_in(kPort, 1, 65535));
    const bool needs_address = &launcher == &kLaunchers.front();
    if (needs_address && (identity.address.empty() || identity.port == 0))
      refuse(fmt::format("{}={} and {}={} want {} and {} as well", launcher.rank, identity.rank,
                         launcher.ranks, identity.ranks, kAddress, kPort));
    return identity;
  }
  return {};
}

}  // namespace trainer
