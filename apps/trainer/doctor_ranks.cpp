// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/doctor_ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "apps/trainer/standard_streams.h"
#include "core/base/error.h"
#include "core/engine/group_operations.h"
#include "core/engine/process_group_library.h"
#include "core/host/library_exit.h"
#include "core/host/processors.h"
#include "core/ranks/mpi_library.h"

namespace trainer {
namespace {

constexpr std::chrono::seconds kRanksTimeout(60);

/// Of this rank, with its GPU and its MPI.
RankPlacement placement_here(const RankIdentity& identity, const std::vector<Json>& gpus) {
  RankPlacement own = own_placement(identity);
  if (!gpus.empty()) {
    const size_t place = static_cast<size_t>(identity.local_rank) % gpus.size();
    own.gpu = fmt::format("{} {}", place, gpus[place]["name"].text());
  }
  const MpiLibrary library = open_mpi_library();
  own.mpi = fmt::format("{} (libtrainer_{}.so)", describe_process_group(library.plugin()), library.plugin());
  return own;
}

std::string cores_text(const RankPlacement& rank) {
  return fmt::format("{} of {} ({})", rank.cores, rank.online_cores, processor_list_text(rank.processors));
}

}  // namespace

std::vector<RankPlacement> placements_of_ranks(const RankIdentity& identity, const std::vector<Json>& gpus) {
  const RankPlacement own = placement_here(identity, gpus);
  const MpiLibrary library = open_mpi_library();
  const LibraryExit ends(ExitCode::no_device,
                         fmt::format("rank {} on {}: MPI ({}) has ended the process, for the reason above",
                                     identity.rank, own.host, library.path));
  const auto group = load_process_group(
      library.plugin(), {.rank = identity.rank,
                         .ranks = identity.ranks,
                         .timeout = kRanksTimeout,
                         .on_lost = [&](const std::string& text) {
                           print_error(fmt::format("rank {} on {}: {}", identity.rank, own.host, text));
                           ::_exit(static_cast<int>(ExitCode::no_device));
                         }});
  std::vector<RankPlacement> all;
  for (const std::string& text : all_gather(*group, to_json(own).dump()))
    all.push_back(placement_from(Json::parse(text).value()));
  group->shut_down();
  return all;
}

std::vector<std::pair<std::string, std::string>> placement_rows(const std::vector<RankPlacement>& ranks) {
  std::vector<std::pair<std::string, std::string>> lines;
  std::vector<std::vector<std::string>> rows = {
      {"", "host", "cores", "threads", "NUMA", "address", "GPU", "MPI"}};
  for (const RankPlacement& rank : ranks) {
    rows.push_back({fmt::format("rank {}", rank.rank), rank.host, cores_text(rank),
                    std::to_string(rank.threads), processor_list_text(rank.nodes), rank.address,
                    rank.gpu.empty() ? "none" : rank.gpu, rank.mpi});
  }
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 1; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    lines.emplace_back(row[0], line.substr(0, line.find_last_not_of(' ') + 1));
  }
  return lines;
}

}  // namespace trainer
