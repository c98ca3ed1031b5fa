// SPDX-License-Identifier: Apache-2.0
#include "cuda/fastest.h"

#include <functional>
#include <string>
#include <vector>
#include "tests/catch.h"

namespace trainer::cuda {
namespace {

/// A clock for runs of one length, which sees each launch too.
struct Bench {
  float run, launch;
  std::vector<int> bursts = {};

  float operator()(int runs) {
    bursts.push_back(runs);
    // The first run of all takes long.
    return launch + static_cast<float>(runs) * run * (bursts.size() == 1 ? 50 : 1);
  }
};

TEST_CASE("short runs are timed in bursts, long ones one by one, and the first does not count") {
  Bench brief{.run = 0.01f, .launch = 0.01f}, lengthy{.run = 20, .launch = 0.01f};
  CHECK(least_time(1, std::ref(brief)) == Approx(0.01).epsilon(0.03));
  CHECK(brief.bursts == std::vector<int>{1, 1, 50, 50, 50});
  CHECK(least_time(1, std::ref(lengthy)) == Approx(20.01));
  CHECK(lengthy.bursts == std::vector<int>{1, 1, 1, 1, 1});
  Bench instant{.run = 0, .launch = 0};
  CHECK(least_time(1, std::ref(instant)) == 0);
  CHECK(instant.bursts.back() == 100);
}

TEST_CASE("a candidate that cannot run is passed over; where none can, the last one's error is thrown") {
  const std::vector<float> times = {3, -1, 2, 2, -1};  // negative: cannot run
  const auto time = [&](size_t i) {
    if (times[i] < 0) throw Error(ExitCode::internal, "candidate " + std::to_string(i));
    return times[i];
  };
  CHECK(fastest_of(times.size(), time) == 2);
  CHECK(fastest_of(1, time) == 0);
  CHECK_THROWS_WITH(fastest_of(2, [&](size_t i) { return time(3 * i + 1); }), "candidate 4");
}

}  // namespace
}  // namespace trainer::cuda
