// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <tuple>
#include "tests/catch.h"

#include "tests/train/rank_runs.h"

namespace trainer::test {
namespace {

const char* const kPlain =
    "{input: [3, 9, 9], layers: [{conv2d: {out_channels: 7, kernel_size: 3}}, relu, {dropout: 0.3}, flatten, "
    "{linear: 10}]}";
const char* const kNormalised =
    "{input: [3, 9, 9], layers: [{conv2d: {out_channels: 8, kernel_size: 3, bias: false}}, batch_norm, relu, "
    "{conv2d: {out_channels: 5, kernel_size: 3, bias: false}}, batch_norm, relu, flatten, {linear: 10}]}";

/// Running statistics that stay as they are, and some that forget at once.
const char* const kStill =
    "{input: [3, 9, 9], layers: [{conv2d: {out_channels: 8, kernel_size: 3, bias: false}}, {batch_norm: "
    "{momentum: "
    "0}}, relu, {conv2d: {out_channels: 5, kernel_size: 3, bias: false}}, {batch_norm: {momentum: 1}}, "
    "flatten, "
    "{linear: 10}]}";

constexpr const char* kMomentum = "{name: sgd, momentum: 0.9, clip_norm: 1}";

}  // namespace

TEST_CASE("ranks come to what one rank comes to with as many micro-batches") {
  const char* network = GENERATE(kPlain, kNormalised, kStill);
  const bool guards = GENERATE(false, true);
  const auto [ranks, micro_batches] = GENERATE(std::pair{2, 1}, std::pair{2, 2}, std::pair{3, 2});
  INFO(network << " guards " << guards << " ranks " << ranks << " x " << micro_batches);
  const Division shared{.ranks = ranks, .micro_batches = micro_batches},
      alone{.micro_batches = ranks * micro_batches};
  const Trained expected = train_all(network, alone, kMomentum, guards)[0];
  const std::vector<Trained> found = train_all(network, shared, kMomentum, guards);
  for (const Trained& one : found) CHECK(one == found[0]);
  CHECK(distance(expected, found[0]) < 1e-5);
  REQUIRE(found[0].losses.size() == kTrainedSteps);
  for (size_t i = 0; i < kTrainedSteps; ++i) {
    CHECK(found[0].losses[i] == Approx(expected.losses[i]).epsilon(1e-5));
    CHECK(found[0].norms[i] == Approx(expected.norms[i]).epsilon(1e-5));
  }
  CHECK(found[0].evaluation.at("loss") == Approx(expected.evaluation.at("loss")).epsilon(1e-5));
  CHECK(std::accumulate(found[0].confusion.begin(), found[0].confusion.end(), int64_t{0}) == 23);
}

TEST_CASE("ranks with unequal numbers of micro-batches come to what one rank comes to") {
  const char* network = GENERATE(kPlain, kNormalised, kStill);
  const bool guards = GENERATE(false, true);
  const auto [ranks, micro_batches, rest] =
      GENERATE(std::tuple{2, 1, 1}, std::tuple{3, 1, 1}, std::tuple{3, 2, 2}, std::tuple{2, 2, 1});
  INFO(network << " guards " << guards << ": " << ranks << " ranks x " << micro_batches << ", and " << rest);
  Division shared{.ranks = ranks, .micro_batches = micro_batches, .rest = rest},
      alone{.micro_batches = ranks * micro_batches + rest};
  if (guards) shared.skip_steps = alone.skip_steps = {2, 3};
  const Trained expected = train_all(network, alone, kMomentum, guards)[0];
  const std::vector<Trained> found = train_all(network, shared, kMomentum, guards);
  for (const Trained& one : found) CHECK(one == found[0]);
  CHECK(distance(expected, found[0]) < 1e-5);
  REQUIRE(found[0].losses.size() == kTrainedSteps);
  for (size_t i = 0; i < kTrainedSteps; ++i)
    CHECK(found[0].losses[i] == Approx(expected.losses[i]).epsilon(1e-5));
  CHECK(found[0].evaluation.at("loss") == Approx(expected.evaluation.at("loss")).epsilon(1e-5));
}

TEST_CASE("ranks make the same matrices orthogonal, and come to what one rank comes to") {
  const char* network =
      "{input: [3, 9, 9], layers: [flatten, {linear: 31}, tanh, {linear: 33}, tanh, {linear: 10}]}";
  const char* optimizer = "{name: muon, adamw_eps: 1.0e-3, clip_norm: 1}";
  const bool guards = GENERATE(false, true);
  const auto [ranks, micro_batches] = GENERATE(std::pair{2, 1}, std::pair{3, 2});
  INFO("guards " << guards << " ranks " << ranks << " x " << micro_batches);
  Division shared{.ranks = ranks, .micro_batches = micro_batches},
      alone{.micro_batches = ranks * micro_batches};
  shared.ema_decay = alone.ema_decay = 0.7;
  if (guards) shared.skip_steps = alone.skip_steps = {2, 2};
  const Trained expected = train_all(network, alone, optimizer, guards)[0];
  const std::vector<Trained> found = train_all(network, shared, optimizer, guards);
  for (const Trained& one : found) CHECK(one == found[0]);
  CHECK(distance(expected, found[0]) < 1e-4);
}

TEST_CASE("two ranks come to the parameter bits of one with two micro-batches") {
  const char* network = GENERATE(kPlain, kNormalised);
  const Trained expected = train_all(network, {.micro_batches = 2}, "{name: sgd, momentum: 0.9}", false)[0];
  const Trained found = train_all(network, {.ranks = 2}, "{name: sgd, momentum: 0.9}", false)[1];
  for (const auto& [name, values] : expected.tensors) {
    INFO(name);
    if (name.find("running") == std::string::npos) CHECK(found.tensors.at(name) == values);
  }
  CHECK(found.tensors.size() == expected.tensors.size());
  if (network == std::string(kPlain)) CHECK(found.confusion == expected.confusion);
}

TEST_CASE("the size of buckets changes no bit, nor how the ranks' images lie") {
  const Division one{.ranks = 3, .rows = 2, .bucket_bytes = 1},
      all{.ranks = 3, .rows = 2, .bucket_bytes = 1 << 30};
  CHECK(train_all(kNormalised, one, kMomentum, false)[0] == train_all(kNormalised, all, kMomentum, false)[2]);
}

}  // namespace trainer::test
