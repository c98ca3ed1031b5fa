// SPDX-License-Identifier: Apache-2.0
#include "core/pruning/masks.h"

#include <algorithm>
#include <limits>
#include <string>

#include "core/base/rng.h"
#include "core/storage/safetensors.h"
#include "tests/catch.h"

using namespace trainer;

namespace {

struct Masked {
  std::vector<float> weights;
  std::vector<uint8_t> mask;

  explicit Masked(std::vector<float> values) : weights(std::move(values)), mask(weights.size(), 1) {}
};

void take_least(std::vector<Masked>& tensors, int64_t count) {
  LeastWeights least(count);
  for (const Masked& tensor : tensors) least.look(tensor.weights, tensor.mask);
  least.narrow();
  for (const Masked& tensor : tensors) least.look_again(tensor.weights);
  least.decide();
  for (Masked& tensor : tensors) least.mask(tensor.weights, tensor.mask);
}

std::vector<uint8_t> mask_of(std::vector<float> values, int64_t count) {
  std::vector<Masked> one = {Masked(std::move(values))};
  take_least(one, count);
  return one[0].mask;
}

std::vector<float> numbers(uint64_t seed, size_t count) {
  RandomStream random(seed);
  std::vector<float> drawn(count);
  for (float& value : drawn) value = 2 * random.next_uniform() - 1;
  return drawn;
}

using Bytes = std::vector<uint8_t>;

}  // namespace

TEST_CASE("masks: those of PyTorch's l1_unstructured and global_unstructured") {
  const SafetensorsFile file(TRAINER_SOURCE_DIR "/tests/fixtures/pruning.safetensors");
  for (const std::string scope : {"layer", "global"}) {
    for (const std::string text : {"0.1", "0.5", "0.8125", "0.98"}) {
      INFO(scope << text);
      std::vector<Masked> tensors;
      std::vector<Bytes> wanted;
      for (int i = 0; i < 4; ++i) {
        const auto values = [&](const char* what) {
          const StoredTensor* stored = file.find(scope + text + "/" + what + std::to_string(i));
          REQUIRE(stored != nullptr);
          return file.read_floats(*stored);
        };
        tensors.emplace_back(values("weight"));
        const std::vector<float> mask = values("mask");
        wanted.emplace_back(mask.begin(), mask.end());
      }
      const double share = std::stod(text);
      if (scope == "layer") {
        for (Masked& tensor : tensors) {
          std::vector<Masked> one = {tensor};
          take_least(one, pruned_count(share, std::ssize(tensor.weights)));
          tensor = one[0];
        }
      } else {
        int64_t all = 0;
        for (const Masked& tensor : tensors) all += std::ssize(tensor.weights);
        take_least(tensors, pruned_count(share, all));
      }
      for (size_t i = 0; i < tensors.size(); ++i) {
        CHECK((tensors[i].mask == wanted[i]));
        for (size_t k = 0; k < tensors[i].mask.size(); ++k)
          if (tensors[i].mask[k] == 0 && tensors[i].weights[k] != 0) FAIL("a masked weight is not zero");
      }
    }
  }
}

TEST_CASE("masks: equal magnitudes go by index, NaN and infinity stay longest") {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  CHECK(mask_of({1, -1, 1, -1}, 3) == Bytes{0, 0, 0, 1});
  CHECK(mask_of({nan, 2, -infinity, -0.0F, 1e-45F}, 1) == Bytes{1, 1, 1, 0, 1});
  CHECK(mask_of({nan, 2, -infinity, -0.0F, 1e-45F}, 4) == Bytes{1, 0, 0, 0, 0});
  CHECK(mask_of({nan, 2, -infinity}, 3) == Bytes{0, 0, 0});
  CHECK(mask_of({0, 0, 0}, 0) == Bytes{1, 1, 1});
  CHECK(mask_of({3}, 0) == Bytes{1});
}

TEST_CASE("masks: they only grow, and doing it again changes nothing") {
  for (const uint64_t seed : {1, 2}) {
    std::vector<float> weights = numbers(seed, 501);
    for (size_t i = 0; i < weights.size(); i += 5) weights[i] = 0;  // zeros that are not masked
    std::vector<Masked> one = {Masked(weights)};
    take_least(one, 50);
    CHECK(std::ranges::count(one[0].mask, 0) == 50);
    const Bytes first = one[0].mask;
    for (const int64_t count : {50, 20}) {
      take_least(one, count);
      CHECK((one[0].mask == first));
    }
    // Training moves what is not masked.
    const std::vector<float> moved = numbers(seed + 10, weights.size());
    for (size_t i = 0; i < weights.size(); ++i) one[0].weights[i] = one[0].mask[i] == 0 ? 0 : moved[i];
    take_least(one, 300);
    CHECK(std::ranges::count(one[0].mask, 0) == 300);
    for (size_t i = 0; i < first.size(); ++i)
      if (first[i] == 0) CHECK(one[0].mask[i] == 0);
  }
}

TEST_CASE("masks: halves are rounded to the even number, as by PyTorch") {
  CHECK(pruned_count(0.5, 5) == 2);
  CHECK(pruned_count(0.5, 7) == 4);
  CHECK(pruned_count(0.1, 3) == 0);
  CHECK(pruned_count(0.98, 100) == 98);
}

TEST_CASE("masks: two of four along the input channels") {
  // (1, 4, 1, 2): neighbours are two apart.
  std::vector<float> weights = {1, -8, -2, 7, 3, 6, 0, 5};
  Bytes mask(8, 1);
  mask_two_of_four(weights, mask, std::vector<int64_t>{1, 4, 1, 2}, 1);
  CHECK(mask == Bytes{0, 1, 1, 1, 1, 0, 0, 0});
  CHECK(weights == std::vector<float>{0, -8, -2, 7, 3, 0, 0, 0});
  // (2, 8), and of equal ones the first stay.
  std::vector<float> rows = {1, 1, 1, 1, 4, 3, 2, 1, 0, -1, 0, -1, 5, 0, 6, 7};
  Bytes of_rows(16, 1);
  mask_two_of_four(rows, of_rows, std::vector<int64_t>{2, 8}, 1);
  CHECK(of_rows == Bytes{1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 1, 1});
  // A weight that training has made zero is not taken out in place of a masked one.
  rows[4] = 0;
  const Bytes before = of_rows;
  mask_two_of_four(rows, of_rows, std::vector<int64_t>{2, 8}, 1);
  CHECK(of_rows == before);
  // (4, 2) along the first dimension, as a transposed convolution has it.
  std::vector<float> columns = {4, 1, 3, 2, 2, 3, 1, 4};
  Bytes of_columns(8, 1);
  mask_two_of_four(columns, of_columns, std::vector<int64_t>{4, 2}, 0);
  CHECK(of_columns == Bytes{1, 0, 1, 0, 0, 1, 0, 1});
}
