// SPDX-License-Identifier: Apache-2.0
#include "core/data/order.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <set>
#include <vector>
#include "tests/catch.h"

#include "core/base/error.h"

namespace trainer {
namespace {

std::vector<int64_t> order_of(uint64_t seed, int64_t epoch, int64_t size) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < size; ++i) order.push_back(shuffled_index(seed, epoch, i, size));
  return order;
}

TEST_CASE("a shuffle is a permutation") {
  const int64_t size = GENERATE(1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 100, 1000, 4097, 60000);
  for (uint64_t seed : {0u, 42u}) {
    for (int64_t epoch : {0, 1, 17}) {
      std::vector<bool> seen(static_cast<size_t>(size));
      for (int64_t value : order_of(seed, epoch, size)) {
        REQUIRE(value >= 0);
        REQUIRE(value < size);
        REQUIRE(!seen[static_cast<size_t>(value)]);
        seen[static_cast<size_t>(value)] = true;
      }
    }
  }
}

TEST_CASE("shuffles differ from epoch to epoch and seed to seed, and look random") {
  constexpr int64_t kSize = 10000;
  std::set<std::vector<int64_t>> orders;
  for (uint64_t seed : {1u, 2u, 3u}) {
    for (int64_t epoch : {0, 1, 2}) {
      const std::vector<int64_t> order = order_of(seed, epoch, kSize);
      orders.insert(order);
      double displacement = 0;
      int64_t fixed = 0, neighbours = 0;
      for (int64_t i = 0; i < kSize; ++i) {
        const int64_t value = order[static_cast<size_t>(i)];
        displacement += static_cast<double>(std::abs(value - i)) / kSize;
        fixed += value == i;
        if (i > 0) neighbours += std::abs(value - order[static_cast<size_t>(i - 1)]) == 1;
      }
      // A random permutation: mean displacement size / 3, one fixed point, two pairs of neighbours.
      CHECK(displacement / kSize == Approx(1.0 / 3).margin(0.01));
      CHECK(fixed < 8);
      CHECK(neighbours < 12);
    }
  }
  CHECK(orders.size() == 9);
}

TEST_CASE("every place of a small shuffle is equally likely") {
  const int64_t size = GENERATE(2, 3, 5, 6, 9, 31, 600);
  constexpr int64_t kEpochs = 20000;
  const double expected = static_cast<double>(kEpochs) / static_cast<double>(size);
  for (int64_t place : {int64_t{0}, size - 1}) {
    std::vector<int64_t> count(static_cast<size_t>(size));
    for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      ++count[static_cast<size_t>(shuffled_index(9, epoch, place, size))];
    }
    double chi_square = 0;
    for (int64_t c : count) chi_square += std::pow(static_cast<double>(c) - expected, 2) / expected;
    const auto freedom = static_cast<double>(size - 1);
    CHECK(chi_square < freedom + 4 * std::sqrt(2 * freedom) + 4);
  }
}

std::vector<int64_t> order_of_blocks(uint64_t seed, int64_t epoch, int64_t size,
                                     const ShuffleBlocks& blocks) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < size; ++i) order.push_back(shuffled_in_blocks(seed, epoch, i, size, blocks));
  return order;
}

TEST_CASE("an order by blocks takes each sample once, and each window has few runs of adjacent samples") {
  const int64_t size = GENERATE(1, 2, 31, 256, 1003);
  for (const ShuffleBlocks blocks : {ShuffleBlocks{1, 1}, {7, 3}, {64, 1}, {64, 100}, {2000, 4}}) {
    std::set<std::vector<int64_t>> orders;
    for (const auto& [seed, epoch] : {std::pair{5, 0}, {5, 1}, {6, 0}}) {
      const std::vector<int64_t> order = order_of_blocks(seed, epoch, size, blocks);
      orders.insert(order);
      CHECK(std::set(order.begin(), order.end()).size() == order.size());
      CHECK(std::ranges::all_of(order, [&](int64_t sample) { return sample >= 0 && sample < size; }));
      for (int64_t begin = 0, end = 0; begin < size; begin = end) {
        end = std::min(size, begin + blocks.block * blocks.window);
        if (size - end < blocks.block) end = size;
        const std::set<int64_t> window(order.begin() + begin, order.begin() + end);
        const auto follows = [&](int64_t sample) { return window.contains((sample + size - 1) % size); };
        // One for each block, and one for the samples that are left in the end.
        CHECK(std::ranges::count_if(window, [&](int64_t sample) { return !follows(sample); }) <=
              blocks.window + 1);
      }
    }
    if (size > 30 && blocks.block < size) CHECK(orders.size() == 3);
  }
}

TEST_CASE("an order by blocks is the same in every release: runs resume in it") {
  CHECK(order_of_blocks(5, 2, 12, {3, 2}) == std::vector<int64_t>{4, 7, 5, 8, 6, 9, 11, 2, 0, 1, 10, 3});
}

TEST_CASE("every place of a small order by blocks is equally likely") {
  constexpr int64_t kSize = 11, kEpochs = 20000;
  const double expected = static_cast<double>(kEpochs) / static_cast<double>(kSize);
  for (int64_t place : {0, 5, 10}) {
    std::vector<int64_t> count(kSize);
    for (int64_t epoch = 0; epoch < kEpochs; ++epoch)
      ++count[static_cast<size_t>(shuffled_in_blocks(9, epoch, place, kSize, {2, 2}))];
    double chi_square = 0;
    for (int64_t c : count) chi_square += std::pow(static_cast<double>(c) - expected, 2) / expected;
    CHECK(chi_square < 10 + 4 * std::sqrt(20.0) + 4);
  }
}

TEST_CASE("blocks are announced before they are reached") {
  const bool drop_last = GENERATE(true, false);
  constexpr int64_t kSize = 103, kBatch = 10;
  const ShuffleBlocks blocks{8, 3};
  const TrainingOrder order(kSize, kBatch, drop_last, nullptr, blocks);
  std::set<int64_t> announced;
  int64_t missed = 0, taken = 0;
  for (int64_t step = 0; step < 60; ++step) {
    order.for_each_next_block(7, step, [&](int64_t first, int64_t count) {
      CHECK((first >= 0 && count >= 1 && count <= blocks.block && first + count <= kSize));
      for (int64_t i = 0; i < count; ++i) announced.insert(first + i);
    });
    for (int64_t i = 0; i < kBatch; ++i, ++taken)
      missed += announced.contains(order.sample(7, order.at(step, i))) ? 0 : 1;
    if (order.at(step, 0).epoch != order.at(step + 1, 0).epoch && step > 0) {
      // Of the first window, of what is left after whole blocks, and of one that goes on at sample 0.
      CHECK(missed <= (step < 12 ? 24 : 0) + 7 + 8);
      missed = 0;
    }
  }
}

TEST_CASE("with drop_last an epoch holds whole batches") {
  const TrainingOrder order(103, 10, true);
  CHECK(order.steps_in(3) == 30);
  CHECK(order.steps_in(Duration{2, Duration::Unit::epochs}) == 20);
  CHECK(order.steps_in(Duration{7, Duration::Unit::batches}) == 7);
  CHECK(order.steps_in(Duration{7, Duration::Unit::batches}, 3) == 7);
  for (const auto& [tokens, steps] : {std::pair{0, 0}, {1, 1}, {64, 1}, {65, 2}, {6400, 100}})
    CHECK(order.steps_in(Duration{tokens, Duration::Unit::tokens}, 64) == steps);
  CHECK_THROWS_AS(order.steps_in(Duration{7, Duration::Unit::tokens}), std::logic_error);
  CHECK(order.at(0, 3).index == 3);
  CHECK(order.at(9, 9).epoch == 0);
  CHECK(order.at(9, 9).index == 99);
  CHECK(order.at(10, 0).epoch == 1);
  CHECK(order.at(10, 0).index == 0);
  CHECK(order.at(25, 4).epoch == 2);
  CHECK(order.at(25, 4).index == 54);
}

TEST_CASE("more epochs than anybody can count are more steps than any run has") {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const bool drop_last : {true, false}) {
    CHECK(TrainingOrder(103, 10, drop_last).steps_in(kMost) > int64_t{1} << 40);
    CHECK(TrainingOrder(kMost, 1, drop_last).steps_in(2) == kMost);
  }
  CHECK(batches_in(Duration{kMost, Duration::Unit::epochs}, {.per_epoch = 2}) == kMost);
  CHECK(batches_in(Duration{kMost, Duration::Unit::batches}, {.per_epoch = 2}) == kMost);
}

TEST_CASE("without drop_last every epoch takes each sample once, across batches") {
  const int64_t batch = GENERATE(1, 10, 64, 250);
  constexpr int64_t kSize = 103, kEpochs = 5;
  const TrainingOrder order(kSize, batch, false);
  std::vector<std::vector<int>> seen(kEpochs, std::vector<int>(kSize));
  for (int64_t step = 0; step < order.steps_in(kEpochs); ++step) {
    for (int64_t i = 0; i < batch; ++i) {
      const auto [epoch, index] = order.at(step, i);
      if (epoch < kEpochs) ++seen[static_cast<size_t>(epoch)][static_cast<size_t>(index)];
    }
  }
  for (const auto& epoch : seen) CHECK(epoch == std::vector<int>(kSize, 1));
  CHECK((order.steps_in(kEpochs) - 1) * batch < kEpochs * kSize);
}

TEST_CASE("drop_last with fewer samples than a batch is an error of the recipe") {
  try {
    TrainingOrder(99, 100, true);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::recipe);
    CHECK(std::string(error.what()) ==
          "training.global_batch_size: must be at most 99, the training samples, got 100; "
          "lower it or set data.drop_last=false");
  }
  CHECK(TrainingOrder(100, 100, true).steps_in(1) == 1);
}

TEST_CASE("weighted draws follow the weights, differ by epoch, and are a function of seed and place") {
  const std::vector<double> weights = {0, 1, 0, 3, 0};
  const SampleDraw draw(weights);
  std::vector<int64_t> counts(5);
  constexpr int64_t kDraws = 40000;
  for (int64_t i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(draw.sample(7, i % 4, i / 4))];
  CHECK((counts[0] == 0 && counts[2] == 0 && counts[4] == 0));
  CHECK(std::abs(counts[1] - kDraws / 4) < 400);  // four standard deviations are 346
  std::vector<int64_t> first, again, other_epoch, other_seed;
  for (int64_t i = 0; i < 64; ++i) {
    first.push_back(draw.sample(7, 0, i));
    again.push_back(SampleDraw(weights).sample(7, 0, i));
    other_epoch.push_back(draw.sample(7, 1, i));
    other_seed.push_back(draw.sample(8, 0, i));
  }
  CHECK((first == again && first != other_epoch && first != other_seed));
  CHECK(SampleDraw(std::vector<double>{1e-300}).sample(1, 0, 0) == 0);
  const double huge = std::numeric_limits<double>::max();
  for (const std::vector<double>& bad : {std::vector<double>{0, 0}, {huge, huge}, {}})
    CHECK_THROWS_WITH(SampleDraw(bad), Catch::Matchers::ContainsSubstring("data.sample_weights"));
}

TEST_CASE("an order with weights: epochs of as many draws, each with its own random transforms") {
  const auto draw = std::make_shared<const SampleDraw>(std::vector<double>{1, 0, 1});
  const TrainingOrder order(3, 2, false, draw);
  CHECK(order.steps_in(2) == 3);
  for (int64_t step = 0; step < 6; ++step) {
    for (int64_t i = 0; i < 2; ++i) {
      const TrainingOrder::Position position = order.at(step, i);
      const RowPlace place = shuffled_place(5, order, step, i);
      CHECK(place.sample == draw->sample(5, position.epoch, position.index));
      CHECK((place.sample != 1 && place.draw == position.index && place.epoch == position.epoch));
    }
  }
  const RowPlace plain = shuffled_place(5, TrainingOrder(3, 2, false), 0, 1);
  CHECK(plain.draw == plain.sample);
}

}  // namespace
}  // namespace trainer
