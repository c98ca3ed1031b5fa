// SPDX-License-Identifier: Apache-2.0
#include "core/train/rank_times.h"

#include <thread>
#include "tests/catch.h"

#include "tests/reference/thread_group.h"

using namespace trainer;

TEST_CASE("a line of metrics has the computing time of each rank, and the slowest rank") {
  test::ThreadGroup table(3);
  std::vector<NamedNumbers> numbers(3);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      test::ThreadProcessGroup own(table, rank);
      // All take as long, but the second waits least for the others.
      const RankTimes times{
          .step = 10, .data_wait = 0.5 * static_cast<double>(rank), .waited = rank == 1 ? 1.0 : 4.0};
      numbers[rank] = numbers_of(times_of_ranks(own, times));
    });
  }
  for (std::thread& each : threads) each.join();
  const NamedNumbers expected = {
      {"world_size", int64_t{3}},  {"communication_ms", 3.0},   {"slowest_rank", int64_t{1}},
      {"rank0_compute_ms", 6.0},   {"rank0_data_wait_ms", 0.0}, {"rank1_compute_ms", 9.0},
      {"rank1_data_wait_ms", 0.5}, {"rank2_compute_ms", 6.0},   {"rank2_data_wait_ms", 1.0}};
  for (const NamedNumbers& found : numbers) CHECK(found == expected);
}

TEST_CASE("the energy of a run is that of all ranks, whichever rank tells it") {
  test::ThreadGroup table(3);
  std::vector<double> joules(3);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      test::ThreadProcessGroup own(table, rank);
      RankSums sums;
      for (const double of_line : {10.0, 1.0})
        sums.add(times_of_ranks(own, {.joules = of_line * static_cast<double>(rank + 1)}), 7);
      joules[rank] = sums.joules();
    });
  }
  for (std::thread& each : threads) each.join();
  CHECK(joules == std::vector<double>{66, 66, 66});
  CHECK(RankSums().joules() == 0);
}

TEST_CASE("one rank alone has no such numbers") {
  SingleProcess alone;
  CHECK(times_of_ranks(alone, {.step = 1}).empty());
  CHECK(numbers_of(std::vector<RankTimes>{}).empty());
  CHECK_FALSE(RankSums().slowest());
}

TEST_CASE("sums over a run name the slowest rank and by how much") {
  RankSums sums;
  sums.add({{.step = 10, .waited = 6}, {.step = 10, .waited = 4}, {.step = 10, .waited = 0}}, 100);
  sums.add({{.step = 20, .waited = 12}, {.step = 20, .waited = 14}, {.step = 20, .waited = 0}}, 50);
  // They computed for 4 * 100 + 8 * 50, 6 * 100 + 6 * 50 and 10 * 100 + 20 * 50 ms.
  REQUIRE(sums.slowest());
  CHECK(sums.slowest()->first == 2);
  CHECK(sums.slowest()->second == Approx(2000 / ((800 + 900) / 2.0)));
  CHECK(sums.waited() == Approx((600 + 400 + 0 + 600 + 700 + 0) / 3.0 * 1e-3));
}
