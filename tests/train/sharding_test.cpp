// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tests/catch.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/train/rank_runs.h"

namespace trainer::test {
namespace {

/// Parameters of odd sizes, in blocked layouts and in plain ones.
const char* const kOddSizes =
    "{input: [3, 9, 9], layers: [{conv2d: {out_channels: 8, kernel_size: 3, bias: false}}, batch_norm, relu, "
    "{conv2d: {out_channels: 5, kernel_size: 3}}, relu, flatten, {linear: 7}, tanh, {linear: 10}]}";

constexpr const char* kWithMomentum = "{name: sgd, momentum: 0.9, weight_decay: 0.01}";
constexpr const char* kAdamW = "{name: adamw, lr: 0.01, clip_norm: 0.5}";
constexpr const char* kLars = "{name: lars, lr: 0.5, momentum: 0.9, clip_value: 0.01}";

constexpr const char* kSpared = "{name: adamw, lr: 0.01, clip_norm: 0.5, no_decay: [bias, norm]}";
constexpr const char* kBothLimits = "{name: adam, lr: 0.01, clip_value: 0.001, clip_norm: 0.5}";

void check_same(const Trained& expected, const std::vector<Trained>& found) {
  for (size_t rank = 0; rank < found.size(); ++rank) {
    INFO("rank " << rank);
    CHECK(found[rank].losses == expected.losses);
    CHECK(found[rank].norms == expected.norms);
    CHECK(found[rank].evaluation == expected.evaluation);
    for (const auto& [name, values] : found[rank].tensors) {
      INFO(name);
      CHECK(values == expected.tensors.at(name));
    }
  }
  CHECK(found[0].tensors.size() == expected.tensors.size());
}

struct Guarded {
  Division division;
  bool guards;
};

/// A case that calls it runs with each in turn.
Guarded any_division() {
  const auto [ranks, micro_batches] = GENERATE(std::pair{2, 1}, std::pair{2, 2}, std::pair{2, 3},
                                               std::pair{3, 1}, std::pair{3, 2}, std::pair{7, 1});
  const auto seed = GENERATE(uint64_t{1}, uint64_t{2});
  const bool guards = GENERATE(false, true);
  Division division{
      .ranks = ranks, .micro_batches = micro_batches, .rows = 3, .seed = seed, .ema_decay = 0.7};
  if (guards) division.skip_steps = {2, 2, 4, 5};
  return {division, guards};
}

std::string text_of(const Division& division) {
  return fmt::format("{} ranks x {}, seed {}", division.ranks, division.micro_batches, division.seed);
}

}  // namespace

TEST_CASE("ranks that share the optimizer's moments come to the bits of ranks that all have them") {
  const char* optimizer = GENERATE(kWithMomentum, kAdamW, kLars);
  auto [division, guards] = any_division();
  INFO(optimizer << ", " << text_of(division) << (guards ? ", guards" : ""));
  const std::vector<Trained> whole = train_all(kOddSizes, division, optimizer, guards);
  division.shard_optimizer = true;
  const std::vector<Trained> found = train_all(kOddSizes, division, optimizer, guards);
  check_same(whole[0], found);
  for (const Trained& one : found) CHECK(one.persistent_bytes < whole[0].persistent_bytes);
}

TEST_CASE(
    "moments in bf16's training are shared as well, and an optimizer without any has nothing to share") {
  Division division{.ranks = 2, .precision = Precision::amp_bf16};
  if (can_train_in_bf16()) {
    const Trained low = train_all(kOddSizes, division, kWithMomentum)[0];
    division.shard_optimizer = true;
    check_same(low, train_all(kOddSizes, division, kWithMomentum));
  }
  division.shard_optimizer = true;
  division.precision = Precision::fp32;
  const std::vector<Trained> plain = train_all(kOddSizes, division, "{name: sgd}");
  division.shard_optimizer = false;
  const Trained expected = train_all(kOddSizes, division, "{name: sgd}")[0];
  check_same(expected, plain);
  CHECK(plain[1].persistent_bytes == expected.persistent_bytes);
}

TEST_CASE("ranks that hold parts of the parameters train as ranks that hold all") {
  const char* optimizer = GENERATE(kWithMomentum, kSpared, kBothLimits);
  auto [division, guards] = any_division();
  INFO(optimizer << ", " << text_of(division) << (guards ? ", guards" : ""));
  const std::vector<Trained> whole = train_all(kOddSizes, division, optimizer, guards);
  division.shards = division.ranks;
  const std::vector<Trained> found = train_all(kOddSizes, division, optimizer, guards);
  check_close(whole[0], found, 2e-6);
  for (const Trained& one : found) CHECK(one.persistent_bytes < whole[0].persistent_bytes);
}

TEST_CASE("copies of the parameters that several ranks share train as copies of one rank each") {
  const auto [ranks, shards] = GENERATE(std::pair{4, 2}, std::pair{6, 2}, std::pair{6, 3});
  const int64_t micro_batches = GENERATE(1, 2);
  const bool guards = GENERATE(false, true);
  Division division{.ranks = ranks, .micro_batches = micro_batches, .rows = 3, .ema_decay = 0.7};
  if (guards) division.skip_steps = {2, 2};
  INFO(text_of(division) << ", " << shards << " share a copy" << (guards ? ", guards" : ""));
  const std::vector<Trained> whole = train_all(kOddSizes, division, kSpared, guards);
  division.shards = shards;
  const std::vector<Trained> found = train_all(kOddSizes, division, kSpared, guards);
  check_close(whole[0], found, 5e-6);  // sums of copies are added up, and not those of all ranks in turn
  for (const Trained& one : found) CHECK(one.persistent_bytes < whole[0].persistent_bytes);
}

TEST_CASE("two ranks with parts come to the bits of two with whole parameters, unless a norm limits") {
  Division division{.ranks = 2, .rows = 3, .recompute = {}};
  if (GENERATE(false, true)) division.recompute.kind = Recompute::Kind::full;
  const std::vector<Trained> whole = train_all(kOddSizes, division, kWithMomentum);
  division.shards = division.ranks;
  const std::vector<Trained> found = train_all(kOddSizes, division, kWithMomentum);
  CHECK(found[0].losses == whole[0].losses);
  for (const auto& [name, values] : found[0].tensors) {
    INFO(name);
    CHECK(values == whole[0].tensors.at(name));
  }
  CHECK(found[0].tensors.size() == whole[0].tensors.size());
}

TEST_CASE("ranks with parts train in bf16 as ranks that hold all") {
  if (!can_train_in_bf16()) return;
  Division division{.ranks = 2, .precision = Precision::amp_bf16};
  const std::vector<Trained> whole = train_all(kOddSizes, division, kAdamW);
  division.shards = division.ranks;
  check_close(whole[0], train_all(kOddSizes, division, kAdamW), 1e-5);
}

/// A pair of products, and logits of ten classes, which four ranks cannot share evenly.
const char* const kPairs =
    "{input: [3, 9, 9], layers: [flatten, {linear: 24}, gelu_tanh, {dropout: 0.2}, {linear: 13}, layer_norm, "
    "{dropout: 0.1}, {linear: 16}, tanh, {linear: 13}, relu, {linear: 10}]}";

TEST_CASE("ranks that share operations train as one") {
  const int64_t tensor = GENERATE(2, 4), replicas = GENERATE(1, 2), micro_batches = GENERATE(1, 2);
  const bool counts = GENERATE(false, true), is_sharded = replicas > 1 && GENERATE(false, true);
  const bool guards = GENERATE(false, true);
  Division division{.ranks = replicas,
                    .micro_batches = micro_batches,
                    .rows = 3,
                    .ema_decay = 0.7,
                    .counts_confusion = counts};
  if (guards) division.skip_steps = {2, 2};
  INFO(tensor << " ranks share operations, " << replicas << " times; " << micro_batches << " micro-batches"
              << (counts ? ", confusion" : "") << (is_sharded ? ", shards" : "")
              << (guards ? ", guards" : ""));
  const std::vector<Trained> whole = train_all(kPairs, division, kAdamW, guards);
  division.ranks = replicas * tensor;
  division.tensor = tensor;
  if (is_sharded) division.shards = replicas;
  const std::vector<Trained> found = train_all(kPairs, division, kAdamW, guards);
  check_close(whole[0], found, 5e-6);
  for (const Trained& one : found) CHECK(one.persistent_bytes < whole[0].persistent_bytes);
}

/// What comes before the pair every rank computes as a whole.
const char* const kPairsBehindConvolution =
    "{input: [3, 9, 9], layers: [{conv2d: {out_channels: 4, kernel_size: 3, bias: false}}, batch_norm, relu, "
    "flatten, {linear: 16}, gelu_tanh, {linear: 13}, relu, {linear: 10}]}";

TEST_CASE("ranks that share classes drop the logits that one process drops") {
  // Ten classes: the last of four ranks has one of them, and padding.
  const char* const network = "{input: [3, 9, 9], layers: [flatten, {linear: 10}, {dropout: 0.3}]}";
  Division division{.ranks = 1, .rows = 3, .counts_confusion = false};
  const Trained whole = train_all(network, division, kAdamW)[0];
  division.ranks = division.tensor = 4;
  check_close(whole, train_all(network, division, kAdamW), 5e-6);
}

TEST_CASE("ranks that share operations take batch statistics of ranks with samples of their own") {
  Division division{.ranks = 2, .rows = 3, .sync_batch_norm = GENERATE(false, true)};
  const std::vector<Trained> whole = train_all(kPairsBehindConvolution, division, kAdamW);
  division.ranks = 4;
  division.tensor = 2;
  check_close(whole[0], train_all(kPairsBehindConvolution, division, kAdamW), 5e-6);
}

TEST_CASE("ranks that share operations train in bf16 as one") {
  if (!can_train_in_bf16()) return;
  const char* const network = GENERATE(kPairs, kPairsBehindConvolution);
  Division division{.ranks = 1, .rows = 3, .precision = Precision::amp_bf16};
  const Trained whole = train_all(network, division, kWithMomentum)[0];
  division.ranks = division.tensor = 2;
  check_close(whole, train_all(network, division, kWithMomentum), 5e-3);
}

}  // namespace trainer::test
