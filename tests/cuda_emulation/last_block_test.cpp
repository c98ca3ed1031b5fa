// SPDX-License-Identifier: Apache-2.0
// Whichever block is the last to be done adds up the parts of all: the bits must not depend on which it is.
#include <cmath>
#include <cstdint>
#include <vector>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "cuda/batch_norm.h"
#include "cuda/handler.h"
#include "cuda/loss.h"
#include "cuda/norms.h"
#include "tests/cuda_emulation/numbers.h"
#include "tests/cuda_emulation/scheduler.h"

namespace trainer::cuda {
namespace {

constexpr uint32_t kSchedules[] = {0, 1, 7, 8};

std::vector<float> random_numbers(int64_t count, uint64_t seed, float least = -1) {
  RandomStream random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = least + 2 * random.next_uniform();
  return values;
}

float* floats(const Numbers& numbers) {
  return static_cast<float*>(numbers.get());
}

/// The counters must be zero again after each kernel, as the next one needs them.
void expect_zeros(const Counters& counters) {
  for (int64_t i = 0; i < kCounters; ++i) REQUIRE(counters.get()[i] == 0);
}

/// One part, several, and more than 32, which are added up in groups; channels in several columns of blocks.
const std::vector<ImageRows> kImages = {
    {7, 5, DType::f32}, {4200, 3, DType::f16}, {300, 270, DType::bf16}, {68121, 3, DType::f32}};

std::vector<double> normalised_backward(const ImageRows& images, uint64_t seed, const Counters& counters) {
  const int64_t count = images.rows * images.channels, channels = images.channels;
  const Numbers x(images.dtype, random_numbers(count, seed)),
      dy(images.dtype, random_numbers(count, seed + 1));
  const Numbers gamma(DType::f32, random_numbers(channels, seed + 2)),
      mean(DType::f32, random_numbers(channels, seed + 3)),
      variance(DType::f32, random_numbers(channels, seed + 4, 1));
  const Numbers dx(images.dtype, count), dgamma(DType::f32, channels), dbeta(DType::f32, channels),
      workspace(DType::f32, batch_norm_workspace_bytes(images) / 4);
  const BatchNormGradients tensors{.dy = dy.get(),
                                   .other_dy = nullptr,
                                   .x = x.get(),
                                   .gamma = floats(gamma),
                                   .mean = floats(mean),
                                   .variance = floats(variance),
                                   .mask = nullptr,
                                   .dx = dx.get(),
                                   .masked = nullptr,
                                   .dgamma = floats(dgamma),
                                   .dbeta = floats(dbeta)};
  REQUIRE(launch_batch_norm_backward(images, 1e-5, tensors, {workspace.get(), counters.get()}, nullptr) ==
          cudaSuccess);
  expect_no_faults();
  std::vector<double> all = dx.values();
  for (const Numbers* more : {&dgamma, &dbeta}) {
    const std::vector<double> values = more->values();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

/// Sums of x, then of x^2.
std::vector<double> channel_sums(const ImageRows& images, const Numbers& x, const Counters& counters) {
  const Numbers sums(DType::f32, images.channels), squares(DType::f32, images.channels),
      workspace(DType::f32, batch_norm_workspace_bytes(images) / 4);
  REQUIRE(launch_channel_sums(images, x.get(), floats(sums), floats(squares),
                              {workspace.get(), counters.get()}, nullptr) == cudaSuccess);
  expect_no_faults();
  std::vector<double> all = sums.values();
  const std::vector<double> more = squares.values();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("a normalisation's gradient has the same bits in any order of blocks") {
  const Counters counters = make_counters(nullptr);
  for (const ImageRows& images : kImages) {
    for (const uint64_t seed : {1, 20}) {
      CAPTURE(images.rows, images.channels, to_string(images.dtype), seed);
      std::vector<double> first;
      for (const uint32_t schedule : kSchedules) {
        emulation::set_schedule(schedule);
        const std::vector<double> found = normalised_backward(images, seed, counters);
        expect_zeros(counters);
        if (first.empty()) first = found;
        CHECK(found == first);
      }
    }
  }
}

TEST_CASE("sums of channels are right, and the same bits in any order of blocks") {
  const Counters counters = make_counters(nullptr);
  for (const ImageRows& images : kImages) {
    CAPTURE(images.rows, images.channels, to_string(images.dtype));
    const Numbers x(images.dtype, random_numbers(images.rows * images.channels, 5, 1));
    const std::vector<double> values = x.values();
    std::vector<double> expected(static_cast<size_t>(2 * images.channels)), first;
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t c = i % static_cast<size_t>(images.channels);
      expected[c] += values[i];
      expected[c + static_cast<size_t>(images.channels)] += values[i] * values[i];
    }
    for (const uint32_t schedule : kSchedules) {
      emulation::set_schedule(schedule);
      const std::vector<double> found = channel_sums(images, x, counters);
      expect_zeros(counters);
      if (first.empty()) first = found;
      CHECK(found == first);
    }
    for (size_t i = 0; i < expected.size(); ++i)
      CHECK(std::abs(first[i] - expected[i]) <= 3e-6 * expected[i]);
  }
}

TEST_CASE("the norm of many gradients is right, and the same bits in any order of blocks") {
  const Counters counters = make_counters(nullptr);
  const size_t count = GENERATE(size_t{1}, size_t{257}, size_t{700});  // a part for each
  std::vector<float> values = random_numbers(static_cast<int64_t>(count), 11);
  const std::vector<int64_t> sizes(count, 1);
  const auto norms = [&] {
    const Numbers g(DType::f32, values), scale(DType::f32, std::vector<float>{4}), results(DType::f32, 5),
        workspace(DType::f32, norm_workspace_bytes(sizes) / 4);
    std::vector<ParameterPointers> parameters(count);
    for (size_t i = 0; i < count; ++i) parameters[i].g = floats(g) + i, parameters[i].count = 1;
    float* to = floats(results);
    const BlockSums sums{workspace.get(), counters.get()};
    REQUIRE(launch_clip({1, 0, false}, parameters, sums, to, to + 1, nullptr) == cudaSuccess);
    REQUIRE(launch_unscale(INFINITY, floats(scale), parameters, sums, {to + 2, to + 3, to + 4}, nullptr) ==
            cudaSuccess);
    expect_no_faults();
    expect_zeros(counters);
    return results.values();
  };
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  const auto norm = static_cast<float>(std::sqrt(squares));
  for (const uint32_t schedule : {0, 7}) {
    emulation::set_schedule(schedule);
    CHECK(norms() == std::vector<double>{norm <= 1 ? 1 : static_cast<float>(1 / std::sqrt(squares)), norm,
                                         0.25, 0, norm / 4});
  }
  for (const float odd : {-INFINITY, NAN}) {
    values[count - 1] = odd;
    const std::vector<double> found = norms();
    CHECK(std::isnan(found[1]) == std::isnan(odd));
    CHECK(!std::isfinite(found[1]));
    CHECK(found[3] == 1);
  }
}

TEST_CASE("a loss has the same bits in any order of blocks") {
  const Counters counters = make_counters(nullptr);
  const auto [count, classes] =
      GENERATE(std::pair<int64_t, int64_t>{1001, 3}, std::pair<int64_t, int64_t>{37, 1031});
  const auto places = static_cast<size_t>(count);
  const Numbers logits(DType::f32, random_numbers(places * static_cast<size_t>(classes), 9)),
      weight(DType::f32, random_numbers(places, 10, 0)), labels(DType::f32, std::vector<float>(places));
  const LogitRows rows{count,          1,       classes, static_cast<const int32_t*>(labels.get()),
                       floats(weight), nullptr, nullptr, classes};
  std::vector<double> first;
  for (const uint32_t schedule : kSchedules) {
    emulation::set_schedule(schedule);
    const Numbers loss(DType::f32, 1), workspace(DType::f32, loss_workspace_bytes(count, classes) / 4);
    REQUIRE(launch_cross_entropy(rows, DType::f32, logits.get(), 0.1, {}, {workspace.get(), counters.get()},
                                 floats(loss), nullptr) == cudaSuccess);
    expect_no_faults();
    expect_zeros(counters);
    if (first.empty()) first = loss.values();
    CHECK(loss.values() == first);
  }
}

}  // namespace trainer::cuda
