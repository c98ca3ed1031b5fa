// SPDX-License-Identifier: Apache-2.0
#include "core/tune/rate_curve.h"

#include <cmath>
#include <limits>
#include "tests/catch.h"

namespace trainer {
namespace {

constexpr int64_t kRisingSteps = 200;

/// Falls once the rate passes 1e-3, and explodes above 1.
double loss_at(double rate) {
  const double fall = 1 / (1 + std::exp(-2 * (std::log10(rate) + 2)));
  return 2 - 1.5 * fall + (rate > 1 ? 20 * (rate - 1) : 0);
}

std::vector<double> losses_of(const std::vector<float>& rates) {
  std::vector<double> losses;
  for (const float rate : rates) losses.push_back(loss_at(rate));
  return losses;
}

}  // namespace

TEST_CASE("rates rise by the same factor from the first to the last") {
  const std::vector<float> rates = rising_rates(1e-5, 10, 7);
  REQUIRE(rates.size() == 7);
  CHECK(rates.front() == Approx(1e-5));
  CHECK(rates.back() == Approx(10));
  for (size_t i = 1; i < rates.size(); ++i) CHECK(rates[i] / rates[i - 1] == Approx(10));
}

TEST_CASE("suggested rates lie on the falling part of a curve, and a tenth below its explosion") {
  const std::vector<float> rates = rising_rates(1e-6, 10, kRisingSteps);
  const RateCurve curve = rate_curve(rates, {losses_of(rates)});
  REQUIRE(curve.diverged_at);
  CHECK(*curve.diverged_at > 1);
  CHECK(*curve.diverged_at < 3);
  CHECK(curve.losses.size() < rates.size());
  const auto found = suggest_rates(curve);
  REQUIRE(found);
  CHECK(found->steepest > 3e-3);
  CHECK(found->steepest < 5e-2);  // the average follows the loss by some steps
  CHECK(found->valley > 1e-3);
  CHECK(found->valley < 1);
  REQUIRE(found->tenth);
  CHECK(*found->tenth == Approx(*curve.diverged_at / 10));
}

TEST_CASE("a curve that ends without an explosion has no tenth of it") {
  const std::vector<float> rates = rising_rates(1e-6, 0.5, kRisingSteps);
  const RateCurve curve = rate_curve(rates, {losses_of(rates)});
  CHECK_FALSE(curve.diverged_at);
  CHECK(curve.losses.size() == rates.size());
  const auto found = suggest_rates(curve);
  REQUIRE(found);
  CHECK_FALSE(found->tenth);
  CHECK(found->least == Approx(curve.rates.back()).epsilon(0.2));
  CHECK(found->best() == found->least / 10);
}

TEST_CASE("a flat, a rising and a very short curve suggest nothing") {
  const std::vector<float> rates = rising_rates(1e-6, 10, kRisingSteps);
  CHECK_FALSE(suggest_rates(rate_curve(rates, {std::vector<double>(rates.size(), 2.3)})));
  std::vector<double> rising;
  for (size_t i = 0; i < rates.size(); ++i) rising.push_back(2 + 0.01 * static_cast<double>(i));
  CHECK_FALSE(suggest_rates(rate_curve(rates, {rising})));
  const std::vector<double> at_once = {2.3, 2.3, std::numeric_limits<double>::quiet_NaN()};
  const RateCurve curve = rate_curve(rates, {at_once});
  CHECK(curve.losses.size() == 2);
  CHECK(curve.diverged_at == Approx(rates[2]));
  CHECK_FALSE(suggest_rates(curve));
}

TEST_CASE("several trainings give the mean of their curves up to the first that diverged") {
  const std::vector<float> rates = rising_rates(1e-6, 10, kRisingSteps);
  std::vector<double> longer(rates.size(), 2), shorter(100, 1);
  shorter.push_back(std::numeric_limits<double>::infinity());
  const RateCurve curve = rate_curve(rates, {longer, shorter});
  REQUIRE(curve.losses.size() == 100);
  for (const double loss : curve.losses) CHECK(loss == Approx(1.5));
  CHECK(curve.diverged_at == Approx(rates[100]));
}

TEST_CASE("a loss has diverged at four times its least average, below zero by as much") {
  LossAverage average;
  average.add(1);
  for (int i = 0; i < 100; ++i) average.add(3.9);
  CHECK_FALSE(average.has_diverged());
  for (int i = 0; i < 100; ++i) average.add(4.1);
  CHECK(average.has_diverged());
  LossAverage negative;
  negative.add(-1);
  CHECK(negative.value() == Approx(-1));
  for (int i = 0; i < 100; ++i) negative.add(1.9);
  CHECK_FALSE(negative.has_diverged());
  for (int i = 0; i < 100; ++i) negative.add(2.1);
  CHECK(negative.has_diverged());
}

}  // namespace trainer
