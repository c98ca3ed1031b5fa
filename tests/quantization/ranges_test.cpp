// SPDX-License-Identifier: Apache-2.0
#include "core/quantization/ranges.h"

#include <cmath>
#include <numbers>

#include "tests/catch.h"

namespace trainer {
namespace {

constexpr size_t kParts = 2048;

/// Counts of a density over a range.
template <class Density>
ValueCounts counts_of(const ValueRange& range, const Density& density) {
  ValueCounts observed{.range = range, .counts = std::vector<double>(kParts)};
  const double width = (range.high - range.low) / static_cast<double>(kParts);
  for (size_t i = 0; i < kParts; ++i)
    observed.counts[i] =
        std::round(1e6 * width * density(range.low + (static_cast<double>(i) + 0.5) * width));
  return observed;
}

double normal(double x) {
  return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
}

}  // namespace

TEST_CASE("methods of choosing a range have names") {
  for (const std::string& name : range_method_names())
    CHECK(to_string(range_method_named(name).value()) == name);
  CHECK(range_method_names() == std::vector<std::string>{"min_max", "percentile", "entropy"});
  CHECK(!range_method_named("max").has_value());
}

TEST_CASE("values are counted from zero on or, if some are negative, on both sides of it") {
  CHECK(counted_range({.low = 2, .high = 5}) == ValueRange{.low = 0, .high = 5});
  CHECK(counted_range({.low = 0, .high = 0}) == ValueRange{.low = 0, .high = 0});
  CHECK(counted_range({.low = -1, .high = 5}) == ValueRange{.low = -5, .high = 5});
  CHECK(counted_range({.low = -8, .high = -2}) == ValueRange{.low = -8, .high = 8});
}

TEST_CASE("min_max keeps all values, and zero") {
  const ValueCounts unused;
  CHECK(range_of(RangeMethod::min_max, {.low = -1, .high = 5}, unused) == ValueRange{.low = -1, .high = 5});
  CHECK(range_of(RangeMethod::min_max, {.low = 2, .high = 5}, unused) == ValueRange{.low = 0, .high = 5});
  CHECK(range_of(RangeMethod::min_max, {.low = -8, .high = -2}, unused) == ValueRange{.low = -8, .high = 0});
}

TEST_CASE("a percentile leaves that share of the largest magnitudes beyond the range") {
  ValueCounts observed{.range = {.low = 0, .high = 2048}, .counts = std::vector<double>(kParts, 0)};
  for (size_t i = 0; i < 100; ++i) observed.counts[i] = 100;
  observed.counts[2000] = 1;  // one of 10,001 values
  CHECK(percentile_range(observed, 0.9999) == ValueRange{.low = 0, .high = 100});
  CHECK(percentile_range(observed, 0.5) == ValueRange{.low = 0, .high = 51});
  CHECK(percentile_range(observed, 1) == ValueRange{.low = 0, .high = 2001});
  CHECK(range_of(RangeMethod::percentile, {}, observed).high == 100);

  observed.range = {.low = -1024, .high = 1024};  // all in the parts from -1024 to -924, but one
  CHECK(percentile_range(observed, 0.9999) == ValueRange{.low = -1024, .high = 1024});
  CHECK(percentile_range(observed, 0.5) == ValueRange{.low = -975, .high = 975});
}

TEST_CASE("the entropy keeps a uniform distribution whole") {
  const ValueCounts observed = counts_of({.low = 0, .high = 4}, [](double) { return 1.0; });
  CHECK(entropy_range(observed) == observed.range);
}

TEST_CASE("the entropy clips a few far values, and keeps most of the others") {
  const auto relu_of_normal = [](double x) { return x < 6 ? normal(x) : 0; };
  ValueCounts observed = counts_of({.low = 0, .high = 100}, relu_of_normal);
  observed.counts[kParts - 1] = 3;
  const double high = range_of(RangeMethod::entropy, {}, observed).high;
  CHECK(high >= 100.0 * 256 / kParts);  // the least that has a part for each byte
  CHECK(high < 20);

  const auto both_sides = [](double x) { return std::abs(x) < 6 ? normal(x) : 0; };
  ValueCounts negative = counts_of({.low = -100, .high = 100}, both_sides);
  negative.counts[0] = 3;
  const ValueRange range = entropy_range(negative);
  CHECK(range.low == -range.high);
  CHECK(range.high < 20);
}

TEST_CASE("many zeros do not narrow the range that the entropy chooses") {
  const auto half = [](double x) { return normal(x); };
  ValueCounts observed = counts_of({.low = 0, .high = 8}, half);
  const ValueRange without = entropy_range(observed);
  observed.counts[0] += 1e7;
  CHECK(entropy_range(observed) == without);
  CHECK(without.high > 2.5);
}

}  // namespace trainer
