// SPDX-License-Identifier: Apache-2.0
#include "core/tune/step_speed.h"

#include "tests/catch.h"

namespace trainer {

TEST_CASE("the smallest micro-batch within 5 % of the fastest is chosen") {
  const auto speed = [](int64_t size, double seconds) {
    return StepSpeed{.micro_batch = size, .samples = 64, .seconds = seconds};
  };
  CHECK(smallest_fast({speed(8, 2.0), speed(16, 1.05), speed(32, 1.0), speed(64, 1.01)}) == 16);
  CHECK(smallest_fast({speed(8, 2.0), speed(16, 1.06), speed(32, 1.0), speed(64, 1.01)}) == 32);
  CHECK(smallest_fast({speed(64, 1.0), speed(1, 1.0)}) == 1);
  CHECK(smallest_fast({speed(5, 3.0)}) == 5);
}

TEST_CASE("several measurements become their median, and the highest peak") {
  const auto measured = [](double seconds, int64_t peak, std::optional<double> joules) {
    return StepSpeed{.micro_batch = 4,
                     .samples = 8,
                     .steps = 5,
                     .seconds = seconds,
                     .planned_bytes = 100,
                     .peak_bytes = peak,
                     .joules = joules};
  };
  const StepSpeed speed = median_speed({measured(3, 90, {}), measured(1, 95, 0.5), measured(2, 80, {})});
  CHECK(speed.micro_batch == 4);
  CHECK(speed.seconds == 2);
  CHECK(speed.peak_bytes == 95);
  CHECK(speed.planned_bytes == 100);
  CHECK(speed.steps == 15);
  CHECK(speed.joules == 0.5);
}

}  // namespace trainer
