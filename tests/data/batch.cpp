// SPDX-License-Identifier: Apache-2.0
#include "core/data/batch.h"

#include <algorithm>
#include <numeric>
#include "tests/catch.h"

#include "core/data/pipeline.h"
#include "core/graph/names.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

constexpr int64_t kLength = 5, kClasses = 3;

/// Possible inputs of a network of tokens: a text, and a label for each of its positions.
BatchInputs token_inputs() {
  return {{"tokens", DType::i32, {kLength}},
          {"labels", DType::i32, {kLength}},
          {"scores", DType::f32, {2, kClasses}},
          {input_name::kWeights, DType::f32, {}},
          {input_name::kSampleIndex, DType::i32, {}}};
}

/// Fills rows that are not images: token t of a sample is 10 * sample + t, its label the next one.
class TokenRows final : public RowReader {
 public:
  explicit TokenRows(const BatchInputs& inputs, int64_t bad = -1)
      : tokens_(*find_input(inputs, "tokens")),
        labels_(*find_input(inputs, "labels")),
        scores_(*find_input(inputs, "scores")),
        bad_(bad) {}

  std::unique_ptr<RowMemory> make_memory() const override { return std::make_unique<Memory>(); }

  void read(const RowPlace& place, const Batch& batch, int64_t row, RowMemory& memory) const override {
    if (place.sample == bad_) throw UnreadableSampleError({"text", "is bad"});
    auto& words = static_cast<Memory&>(memory).words;
    std::iota(words.begin(), words.end(), static_cast<int32_t>(10 * place.sample));
    std::copy_n(words.begin(), kLength, batch.row<int32_t>(tokens_, row));
    std::copy_n(words.begin() + 1, kLength, batch.row<int32_t>(labels_, row));
    std::fill_n(batch.row<float>(scores_, row), 2 * kClasses, static_cast<float>(place.epoch) + 0.5f);
  }

 private:
  struct Memory final : RowMemory {
    std::vector<int32_t> words = std::vector<int32_t>(kLength + 1);
  };

  size_t tokens_, labels_, scores_;
  int64_t bad_;
};

std::unique_ptr<RowReader> token_rows(int64_t bad = -1) {
  return std::make_unique<TokenRows>(token_inputs(), bad);
}

TEST_CASE("a batch has an aligned array for each input, in their order") {
  const BatchInputs inputs = {
      {"a", DType::u8, {3, 7}}, {"b", DType::i32, {}}, {"c", DType::f32, {4, 2, 2}}, {"d", DType::bf16, {}}};
  CHECK(batch_bytes(inputs, 5) == 128 + 64 + 320 + 64);
  const Buffer memory = allocate_host(batch_bytes(inputs, 5));
  const Batch batch(memory.data(), inputs, 5);
  CHECK(batch.array(0) == memory.data());
  CHECK(batch.array(1) == memory.data() + 128);
  CHECK(batch.array(2) == memory.data() + 192);
  CHECK(batch.array(3) == memory.data() + 512);
  CHECK(batch.row<uint8_t>(0, 4) == reinterpret_cast<uint8_t*>(memory.data()) + 84);
  CHECK(batch.row<float>(2, 1) == batch.find<float>("c") + 16);
  CHECK(batch.find<float>("e") == nullptr);
  CHECK(!find_input(inputs, "e").has_value());
}

TEST_CASE("rows that are no images go through the same pipeline, for any number of workers") {
  const int64_t workers = GENERATE(0, 1, 3);
  const TrainingOrder order(20, 6, true);
  DataPipeline pipeline(BatchMaker(token_rows(), token_inputs(), TrainingBatches{4, order, 3}),
                        {.workers = workers, .prefetch = 2});
  for (int64_t number = 0; number < 14; ++number) {
    const Batch& batch = pipeline.next();
    for (int64_t row = 0; row < 3; ++row) {
      const RowPlace place = shuffled_place(4, order, batch.step, batch.first + row);
      CHECK(place.index == batch.first + row);
      CHECK(batch.find<int32_t>("tokens")[row * kLength + 2] == 10 * place.sample + 2);
      CHECK(batch.find<int32_t>("labels")[row * kLength + 4] == 10 * place.sample + 5);
      CHECK(batch.find<float>("scores")[row * 2 * kClasses + 5] == static_cast<float>(place.epoch) + 0.5f);
      CHECK(weights_of(batch)[row] == 1.0f / 6);
      CHECK(sample_index_of(batch)[row] == place.index);
    }
  }
}

TEST_CASE("padding and unreadable samples are rows of zeros, whatever the rows hold") {
  std::vector<int64_t> told;
  const auto tell = [&](int64_t index, const UnreadableSample&) { told.push_back(index); };
  DataPipeline pipeline(BatchMaker(token_rows(1), token_inputs(), EvaluationBatches{6, 4, tell}),
                        {.workers = 0});
  for (int64_t number = 0; number < 2; ++number) {
    const Batch& batch = pipeline.next();
    for (int64_t row = 0; row < 4; ++row) {
      const int64_t sample = 4 * number + row;
      const bool is_there = sample < 6 && sample != 1;
      CHECK(weights_of(batch)[row] == (is_there ? 1.0f : 0.0f));
      CHECK(batch.find<int32_t>("tokens")[row * kLength + 4] == (is_there ? 10 * sample + 4 : 0));
      CHECK(batch.find<float>("scores")[row * 2 * kClasses] == (is_there ? 0.5f : 0.0f));
    }
  }
  CHECK(told == std::vector<int64_t>{1});
}

TEST_CASE("where the device has all samples, a batch names them and none is read") {
  const BatchInputs inputs = {{input_name::kSampleNumbers, DType::i32, {}},
                              {input_name::kSampleEpochs, DType::i32, {}},
                              {input_name::kWeights, DType::f32, {}}};
  const CountingSource source(10, {1, 2, 2}, 0);  // would throw
  const TransformList none;
  const TrainingOrder order(10, 4, false);
  DataPipeline training(
      image_batches(source, make_chain(none, {1, 2, 2}), TrainingBatches{4, order, 4}, {}, inputs), {});
  for (int64_t step = 0; step < 6; ++step) {
    const Batch& batch = training.next();
    for (int64_t row = 0; row < 4; ++row) {
      const RowPlace place = shuffled_place(4, order, step, row);
      CHECK(batch.find<int32_t>(input_name::kSampleNumbers)[row] == place.sample);
      CHECK(batch.find<int32_t>(input_name::kSampleEpochs)[row] == place.epoch);
      CHECK(weights_of(batch)[row] == 0.25f);
    }
  }
  DataPipeline pass(image_batches(source, make_chain(none, {1, 2, 2}), EvaluationBatches{10, 8}, {}, inputs),
                    {});
  pass.next();
  const Batch& last = pass.next();
  CHECK(last.find<int32_t>(input_name::kSampleNumbers)[1] == 9);
  CHECK(last.find<int32_t>(input_name::kSampleNumbers)[2] == -1);
  CHECK(weights_of(last)[1] == 1.0f);
  CHECK(weights_of(last)[2] == 0.0f);
  CHECK_THROWS_AS(
      image_batches(source, make_chain(none, {1, 2, 2}), TrainingBatches{4, order, 4}, {.cutmix = 1}, inputs),
      std::logic_error);
}

/// Samples that are not images.
class TokenSource final : public DataSource {
 public:
  int64_t size() const override { return 6; }
  Shape sample_shape() const override { return {kLength}; }
  int64_t classes() const override { return kClasses; }
  int64_t resident_bytes() const override { return 0; }
  void check_labels(const AllowedLabels&) const override {}
  std::unique_ptr<RowReader> rows(const RowRequest&) const override { return token_rows(); }
};

TEST_CASE("what is for images alone refuses other samples") {
  const CountingSource images(3, {1, 2, 2});
  CHECK(&as_images(images) == &images);
  CHECK_THROWS_WITH(as_images(TokenSource()), "data.format: its samples are not images");
}

}  // namespace
}  // namespace trainer
