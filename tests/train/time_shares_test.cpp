// SPDX-License-Identifier: Apache-2.0
#include "core/train/time_shares.h"

#include "tests/catch.h"

namespace trainer {
namespace {

TEST_CASE("shares of the time: the largest first, nothing below one percent") {
  const TimeShares time{.computing = 61, .data = 27, .evaluating = 11.5, .saving = 0.5};
  CHECK(time.total() == 100);
  CHECK(time_text(time) == "61 % computing, 27 % waiting for data, 12 % evaluating");
  const std::vector<std::pair<std::string, double>> expected = {
      {"time_computing", 0.61}, {"time_data", 0.27}, {"time_evaluating", 0.115}, {"time_saving", 0.005}};
  CHECK(numbers_of(time) == expected);
  CHECK(numbers_of(TimeShares{}).empty());
  CHECK((time - TimeShares{.computing = 60}).computing == 1);
}

TEST_CASE("the largest share that can be avoided has an advice with a key") {
  const auto advice = [](const TimeShares& time, const TimeFacts& facts) { return time_advice(time, facts); };
  CHECK(advice({.computing = 96, .data = 4}, {.workers = 1}) == "");
  CHECK(advice({.starting = 100}, {}) == "");
  // A batch is computed in 10 ms and made in 35.
  const TimeShares slow_data{.computing = 10, .data = 25};
  const TimeFacts decoding{.workers = 1, .cores = 8, .made_seconds = 0.035, .made_busy = 1, .batches = 1000};
  CHECK(advice(slow_data, decoding) ==
        "a worker takes 35.0 ms for a batch that is computed in 10.0 ms: 3 more are needed (data.workers=4), "
        "or "
        "smaller images");
  TimeFacts changed = decoding;
  changed.cores = 2;
  CHECK(advice(slow_data, changed).find("2 cores are too few") != std::string::npos);
  changed = decoding;
  changed.made_busy = 0.1;
  CHECK(advice(slow_data, changed).starts_with("90 % of the workers' time is spent on reading"));
  changed = decoding;
  changed.workers = 0;
  CHECK(advice(slow_data, changed).find("data.workers=1") != std::string::npos);
  changed = decoding;
  changed.workers = 4;
  CHECK(advice(slow_data, changed) == "raise data.prefetch, or data.workers above 4");

  CHECK(advice({.computing = 50, .data = 10, .ranks = 40}, {.slowest = std::pair{int64_t{1}, 1.8}})
            .starts_with("rank 1 takes 1.8 times as long"));
  CHECK(advice({.computing = 90, .ranks = 10}, {.slowest = std::pair{int64_t{1}, 1.1}})
            .find("training.global_batch_size") != std::string::npos);
  // The others wait for this rank.
  CHECK(advice({.computing = 100}, {.waited = 40, .slowest = std::pair{int64_t{0}, 2.0}})
            .starts_with("rank 0"));
  CHECK(advice({.computing = 80, .stolen = 20}, {}).find("device.threads") != std::string::npos);
  CHECK(advice({.computing = 70, .evaluating = 30}, {}).find("validation.interval") != std::string::npos);
  CHECK(advice({.computing = 70, .saving = 30}, {}).find("checkpoint.interval") != std::string::npos);
}

}  // namespace
}  // namespace trainer
