// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/placement.h"

#include "tests/catch.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Numbers = std::vector<int64_t>;

/// On a host with four cores and a single NUMA node.
RankPlacement placed(int64_t rank, Numbers processors, int64_t threads, const char* host = "a") {
  RankPlacement placement{.rank = rank, .host = host, .processors = std::move(processors)};
  placement.cores = std::ssize(placement.processors);
  placement.online_cores = 4;
  placement.threads = threads;
  placement.nodes = placement.memory_nodes = {0};
  return placement;
}

std::string texts(const std::vector<RankPlacement>& ranks) {
  std::string all;
  for (const Finding& finding : placement_findings(ranks)) all += finding.text + "\n";
  return all;
}

}  // namespace

TEST_CASE("ranks that have the cores of their host, together or divided, are well placed") {
  const Numbers all = {0, 1, 2, 3};
  CHECK(texts({placed(0, all, 2), placed(1, all, 2)}).empty());
  CHECK(texts({placed(0, {0, 1}, 2), placed(1, {2, 3}, 2)}).empty());
  CHECK(texts({placed(0, {0, 1}, 2), placed(1, {0, 1}, 2, "b")}).empty());  // a job may have a part of a host
  // More ranks than cores, of which none is bound.
  std::vector<RankPlacement> five;
  for (int64_t rank = 0; rank < 5; ++rank) five.push_back(placed(rank, all, 1));
  CHECK(texts(five) == "the 5 ranks on a have 5 threads on 4 cores\n");
}

TEST_CASE("ranks on the same cores, on few cores, with many threads and far from their memory are named") {
  CHECK_THAT(texts({placed(0, {0}, 1), placed(1, {0}, 1)}),
             ContainsSubstring("ranks 0 and 1 on a are both bound to processor 0\n") &&
                 ContainsSubstring("the 2 ranks on a are bound to 1 of its 4 cores\n") &&
                 ContainsSubstring("the 2 ranks on a have 2 threads on 1 cores\n"));
  CHECK(texts({placed(0, {0}, 1), placed(1, {1}, 1)}) == "the 2 ranks on a are bound to 2 of its 4 cores\n");
  CHECK_THAT(texts({placed(0, {0, 1}, 2), placed(1, {1, 2}, 2)}),
             ContainsSubstring("are both bound to processor 1\n"));
  RankPlacement far = placed(0, {0, 1, 2, 3}, 4);
  far.nodes = {1};
  CHECK(texts({far}) == "rank 0 on a computes on NUMA node 1, and may have memory of node 0 only\n");
  const std::vector<Finding> findings = placement_findings({placed(0, {0}, 1), placed(1, {1}, 1)});
  CHECK(findings.at(0).cost == 0.5);
}

TEST_CASE("a placement comes back from its JSON, and this process has one") {
  RankPlacement own = own_placement({.rank = 1, .ranks = 2, .local_rank = 1, .local_ranks = 2});
  own.gpu = "0 NVIDIA H100";
  own.mpi = "MPICH 4.0.2";
  const RankPlacement back = placement_from(Json::parse(to_json(own).dump()).value());
  CHECK(to_json(back).dump() == to_json(own).dump());
  CHECK(own.cores >= 1);
  CHECK(own.online_cores >= own.cores);
  CHECK(own.threads >= 1);
  CHECK_FALSE(own.host.empty());
  CHECK_FALSE(own.address.empty());
}

}  // namespace trainer
