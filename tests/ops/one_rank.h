// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/graph/names.h"
#include "tests/catch.h"
#include "tests/ops/parts.h"
#include "tests/ops/sketch.h"
#include "tests/reference/place_group.h"
#include "tests/reference/session.h"

// One rank of several, whose peers do not exist, and comparisons of what ranks compute with wholes.

namespace trainer::test {

using Numbers = std::vector<double>;
using Inputs = std::map<std::string, std::vector<float>>;
/// Makes outputs named "y" and so on of inputs that it declares.
using Write = std::function<void(Sketch&)>;

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                       kInf = std::numeric_limits<float>::infinity();

inline Along along(int64_t ranks) {
  return {Axis::tensor, ranks};
}

/// A rank of several, or one process.
class Rank {
 public:
  Rank(const BackendOfRank& make, int64_t rank, int64_t ranks, const Write& write)
      : group_(rank, {.tensor = ranks}), backend_(make(ranks == 1 ? nullptr : &group_)), sketch_(1) {
    write(sketch_);
    session_ = std::make_unique<Session>(sketch_.program, backend_);
  }
  Numbers run(const Inputs& inputs, const std::string& output = "y") {
    session_->set(inputs);
    session_->run(entry_name::kTrainStep);
    return session_->output(entry_name::kTrainStep, output);
  }

 private:
  test::PlaceGroup group_;
  Backend backend_;
  Sketch sketch_;
  std::unique_ptr<Session> session_;
};

inline Numbers run(const BackendOfRank& make, int64_t rank, int64_t ranks, const Write& write,
                   const Inputs& inputs) {
  return Rank(make, rank, ranks, write).run(inputs);
}

inline std::vector<float> numbers(uint64_t seed, int64_t count) {
  Sketch sketch(seed);
  sketch.input("x", {count});
  return sketch.values.at("x");
}

inline std::vector<float> integers(uint64_t seed, int64_t count, int64_t below) {
  Sketch sketch(seed);
  sketch.integers("x", count, below);
  return sketch.values.at("x");
}

/// With NaN equal to NaN.
inline void check_equal(const Numbers& found, const Numbers& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const bool is_equal = std::isnan(expected[i]) ? std::isnan(found[i]) : found[i] == expected[i];
    if (is_equal) continue;
    FAIL_CHECK("element " << i << " is " << found[i] << ", not " << expected[i]);
    return;
  }
}

inline void check_near(double found, double expected, double tolerance) {
  if (std::isnan(expected)) {
    CHECK(std::isnan(found));
  } else if (std::isinf(expected)) {
    CHECK(found == expected);
  } else {
    CHECK_THAT(found, Catch::Matchers::WithinAbs(expected, tolerance * (1 + std::abs(expected))));
  }
}

/// Columns [begin, begin + count) of rows of `width`; zeros beyond them.
inline std::vector<float> columns(const std::vector<float>& x, int64_t width, int64_t begin, int64_t count) {
  std::vector<float> part;
  for (int64_t row = 0; row < static_cast<int64_t>(x.size()) / width; ++row) {
    for (int64_t c = begin; c < begin + count; ++c)
      part.push_back(c < width ? x[static_cast<size_t>(row * width + c)] : 0.0f);
  }
  return part;
}

/// The parts' columns beside each other, without what is beyond the whole.
inline Numbers joined(const std::vector<Numbers>& parts, int64_t width, int64_t of_part) {
  Numbers whole;
  for (int64_t row = 0; row < static_cast<int64_t>(parts[0].size()) / of_part; ++row) {
    for (int64_t c = 0; c < width; ++c)
      whole.push_back(
          parts[static_cast<size_t>(c / of_part)][static_cast<size_t>(row * of_part + c % of_part)]);
  }
  return whole;
}

}  // namespace trainer::test
