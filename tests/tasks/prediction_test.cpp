// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/classification.h"

#include <cmath>
#include "tests/catch.h"

#include "core/base/rng.h"

namespace trainer {

TEST_CASE("probabilities are those of a softmax in long double, however far the logits are from zero") {
  RandomStream random(random_key(1, "logits"));
  for (const float offset : {0.0f, 80.0f, -3000.0f, 1e30f}) {
    for (const size_t classes : {1u, 2u, 31u, 1000u}) {
      std::vector<float> logits;
      for (size_t i = 0; i < classes; ++i) logits.push_back(offset + 20 * random.next_uniform() - 10);
      long double sum = 0;
      for (float x : logits) sum += std::exp(static_cast<long double>(x) - static_cast<long double>(offset));
      const std::vector<double> found = probabilities(logits);
      REQUIRE(found.size() == classes);
      for (size_t i = 0; i < classes; ++i) {
        const long double expected = std::exp(static_cast<long double>(logits[i]) - offset) / sum;
        CHECK(found[i] == Approx(static_cast<double>(expected)).epsilon(1e-13));
      }
    }
  }
}

TEST_CASE("the largest come in order, the lower class first among equal ones") {
  const std::vector<float> logits{1, 3, -2, 3, 0.5f};
  CHECK(largest(logits, 3) == std::vector<size_t>{1, 3, 0});
  CHECK(largest(logits, 9) == std::vector<size_t>{1, 3, 0, 4, 2});
  CHECK(largest(logits, 1) == std::vector<size_t>{1});
  const std::vector<float> far_below{0, -2000, -1000};  // both with probability zero
  CHECK(largest(far_below, 3) == std::vector<size_t>{0, 2, 1});
}

}  // namespace trainer
