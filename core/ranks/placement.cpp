// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "core/host/limits.h"
#include "core/host/process.h"
#include "core/host/processors.h"
#include "core/ranks/peer_connections.h"

namespace trainer {
namespace {

std::vector<int64_t> numbers_of(const Json& json) {
  std::vector<int64_t> numbers;
  for (const Json& each : json.items()) numbers.push_back(each.integer().value());
  return numbers;
}

std::vector<int64_t> common(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both;
}

constexpr const char* kBindNone =
    "start them without binding (Open MPI: --bind-to none; srun: --cpu-bind=none; Intel MPI: I_MPI_PIN=off), "
    "or bind each to its share (srun --cpus-per-task)";

/// Two ranks that may not use all processors of their host, and share some.
void find_shared_cores(const std::vector<RankPlacement>& here, std::vector<Finding>& findings) {
  const auto is_bound = [](const RankPlacement& rank) { return rank.cores < rank.online_cores; };
  for (size_t a = 0; a < here.size(); ++a) {
    for (size_t b = a + 1; b < here.size(); ++b) {
      if (!is_bound(here[a]) || !is_bound(here[b])) continue;
      if (here[a].processors == here[b].processors && here[a].cores >= std::ssize(here)) continue;
      const std::vector<int64_t> both = common(here[a].processors, here[b].processors);
      if (both.empty()) continue;
      findings.push_back(
          {.text = fmt::format("ranks {} and {} on {} are both bound to processor {}", here[a].rank,
                               here[b].rank, here[a].host, processor_list_text(both)),
           .mend = kBindNone,
           .cost = 0.5});
      return;
    }
  }
}

void find_idle_cores(const std::vector<RankPlacement>& here, std::vector<Finding>& findings) {
  std::map<std::vector<int64_t>, int64_t> used;  // ranks with the same processors share their cores
  int64_t threads = 0, cores = 0;
  for (const RankPlacement& each : here) {
    used[each.processors] = each.cores;
    threads += each.threads;
  }
  for (const auto& [processors, of_them] : used) cores += of_them;
  const int64_t all = here.front().online_cores;
  cores = std::min(cores, all);
  const std::string host = here.front().host;
  if (here.size() > 1 && cores < all) {
    findings.push_back({.text = fmt::format("the {} ranks on {} are bound to {} of its {} cores", here.size(),
                                            host, cores, all),
                        .mend = kBindNone,
                        .cost = 1 - static_cast<double>(cores) / static_cast<double>(all)});
  }
  if (threads > cores) {
    findings.push_back({.text = fmt::format("the {} ranks on {} have {} threads on {} cores", here.size(),
                                            host, threads, cores),
                        .mend = "start fewer ranks on that host",
                        .cost = 1 - static_cast<double>(cores) / static_cast<double>(threads)});
  }
}

void find_far_memory(const RankPlacement& rank, std::vector<Finding>& findings) {
  if (rank.nodes.empty() || rank.memory_nodes.empty()) return;
  if (common(rank.nodes, rank.memory_nodes) == rank.nodes) return;
  findings.push_back(
      {.text = fmt::format("rank {} on {} computes on NUMA node {}, and may have memory of node {} only",
                           rank.rank, rank.host, processor_list_text(rank.nodes),
                           processor_list_text(rank.memory_nodes)),
       .mend = "let the cgroup's cpuset.mems have the nodes of its processors (srun --mem-bind=local)"});
}

}  // namespace

RankPlacement own_placement(const RankIdentity& identity) {
  const HostFacts facts = host_facts();
  RankPlacement own{.rank = identity.rank,
                    .local_rank = identity.local_rank,
                    .local_ranks = identity.local_ranks,
                    .host = host_name()};
  // As if other hosts took part, so that it is not the loopback.
  own.address = listening_address({.ranks = identity.ranks + 1, .local_ranks = identity.ranks});
  own.processors = allowed_processors();
  own.cores = physical_cores(own.processors);
  own.online_cores = facts.cores;
  own.threads = thread_limit(identity.local_ranks, facts).value;
  own.nodes = numa_nodes_of(own.processors);
  own.memory_nodes = allowed_memory_nodes();
  return own;
}

Json to_json(const RankPlacement& placement) {
  return {{"rank", placement.rank},
          {"local_rank", placement.local_rank},
          {"local_ranks", placement.local_ranks},
          {"host", placement.host},
          {"address", placement.address},
          {"processors", Json(placement.processors)},
          {"cores", placement.cores},
          {"online_cores", placement.online_cores},
          {"threads", placement.threads},
          {"numa_nodes", Json(placement.nodes)},
          {"memory_nodes", Json(placement.memory_nodes)},
          {"gpu", placement.gpu},
          {"mpi", placement.mpi}};
}

RankPlacement placement_from(const Json& json) {
  const auto number = [&](const char* key) { return json[key].integer().value(); };
  return {.rank = number("rank"),
          .local_rank = number("local_rank"),
          .local_ranks = number("local_ranks"),
          .host = json["host"].text(),
          .address = json["address"].text(),
          .processors = numbers_of(json["processors"]),
          .cores = number("cores"),
          .online_cores = number("online_cores"),
          .threads = number("threads"),
          .nodes = numbers_of(json["numa_nodes"]),
          .memory_nodes = numbers_of(json["memory_nodes"]),
          .gpu = json["gpu"].text(),
          .mpi = json["mpi"].text()};
}

std::vector<Finding> placement_findings(const std::vector<RankPlacement>& ranks) {
  std::map<std::string, std::vector<RankPlacement>> by_host;
  for (const RankPlacement& rank : ranks) by_host[rank.host].push_back(rank);
  std::vector<Finding> findings;
  for (const auto& [host, here] : by_host) {
    find_shared_cores(here, findings);
    find_idle_cores(here, findings);
    for (const RankPlacement& rank : here) find_far_memory(rank, findings);
  }
  return findings;
}

}  // namespace trainer
