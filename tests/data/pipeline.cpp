// SPDX-License-Identifier: Apache-2.0
#include "core/data/pipeline.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>
#include "tests/catch.h"

#include "core/data/images/synthetic.h"
#include "tests/data/counting_new.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

const Shape kShape = {2, 6, 5};
constexpr int64_t kPixels = 60;

struct Training {
  int64_t micro_batch = 6, global_batch = 12, first_step = 0;
  bool drop_last = true;
  uint64_t seed = 5;
  ShuffleBlocks blocks = {};
};

std::vector<std::string> training_bits(const ImageSource& source, const TransformList& list,
                                       const Training& training, const Loading& loading, int64_t batches) {
  const TrainingOrder order(source.size(), training.global_batch, training.drop_last, nullptr,
                            training.blocks);
  DataPipeline pipeline(
      image_batches(source, make_chain(list, source.sample_shape()),
                    TrainingBatches{training.seed, order, training.micro_batch, training.first_step}),
      loading);
  std::vector<std::string> all;
  for (int64_t i = 0; i < batches; ++i) all.push_back(bits(pipeline.next(), training.micro_batch));
  return all;
}

TEST_CASE("bytes are what becomes the numbers of the same batch") {
  const CountingSource source(50, kShape);
  const TransformList list = augmentation();
  const PixelMap map = pixel_map(list, kShape[0]);
  const Mix mix = GENERATE(Mix{}, Mix{.cutmix = 1.0});
  auto make = [&](DType dtype) {
    const TrainingOrder order(source.size(), 12, true);
    return image_batches(source, make_chain(list, kShape),
                         TrainingBatches{.seed = 5, .order = order, .micro_batch = 6}, mix,
                         image_inputs(kShape, dtype));
  };
  DataPipeline numbers(make(DType::f32), {}), bytes(make(DType::u8), {});
  for (int number = 0; number < 8; ++number) {
    const Batch &a = numbers.next(), &b = bytes.next();
    REQUIRE((numbers.inputs()[0].dtype == DType::f32 && bytes.inputs()[0].dtype == DType::u8));
    int64_t differing = 0;
    for (int64_t i = 0; i < 6 * kPixels; ++i) {
      const auto channel = static_cast<size_t>(i / (kShape[1] * kShape[2]) % kShape[0]);
      const float scaled = map.scale[channel] * static_cast<float>(bytes_of(b)[i]) + map.offset[channel];
      differing += std::memcmp(&scaled, images_of(a) + i, sizeof scaled) != 0;
    }
    CHECK(differing == 0);
    CHECK(std::equal(labels_of(a), labels_of(a) + 6, labels_of(b)));
    CHECK(std::equal(mix_weights_of(a), mix_weights_of(a) + 6, mix_weights_of(b)));
  }
}

TEST_CASE("mixup has no bytes") {
  const CountingSource source(50, kShape);
  const TransformList none;
  const TrainingOrder order(source.size(), 12, true);
  const TrainingBatches mixed{.seed = 5, .order = order, .micro_batch = 6};
  CHECK_THROWS_AS(
      image_batches(source, make_chain(none, kShape), mixed, {.mixup = 1}, image_inputs(kShape, DType::u8)),
      std::logic_error);
}

TEST_CASE("a padded batch of bytes is a quarter as large and ends in zeros") {
  const CountingSource source(5, kShape);
  const TransformList none;
  DataPipeline pipeline(image_batches(source, make_chain(none, kShape), EvaluationBatches{5, 4}, {},
                                      image_inputs(kShape, DType::u8)),
                        {});
  pipeline.next();
  const Batch& last = pipeline.next();
  CHECK(last.real == 1);
  CHECK(bytes_of(last)[0] == 4);
  CHECK(std::all_of(bytes_of(last) + kPixels, bytes_of(last) + 4 * kPixels,
                    [](uint8_t byte) { return byte == 0; }));
  const Shape large{3, 64, 64};
  const int64_t numbers = batch_bytes(image_inputs(large), 32),
                bytes = batch_bytes(image_inputs(large, DType::u8), 32);
  CHECK(numbers - bytes == int64_t{3} * numel({32, 3, 64, 64}));
}

TEST_CASE("training batches follow the order, with labels, weights and numbers") {
  const bool drop_last = GENERATE(true, false);
  const CountingSource source(50, kShape);
  const TransformList none;
  const TrainingOrder order(50, 12, drop_last);
  DataPipeline pipeline(image_batches(source, make_chain(none, kShape), TrainingBatches{3, order, 4, 2}), {});
  for (int64_t number = 6; number < 60; ++number) {
    const Batch& batch = pipeline.next();
    CHECK(batch.step == number / 3);
    CHECK(batch.first == number % 3 * 4);
    CHECK(batch.epoch == order.at(batch.step, batch.first).epoch);
    CHECK(batch.real == 4);
    for (int64_t row = 0; row < 4; ++row) {
      const auto [epoch, index] = order.at(batch.step, batch.first + row);
      const int64_t sample = shuffled_index(3, epoch, index, 50);
      CHECK(labels_of(batch)[row] == sample % 10);
      CHECK(weights_of(batch)[row] == 1.0f / 12);
      CHECK(sample_index_of(batch)[row] == batch.first + row);
      CHECK(images_of(batch)[row * kPixels + 1] ==
            Approx(static_cast<double>(sample + 7) / 255).epsilon(1e-6));
    }
  }
}

TEST_CASE("of a step's micro-batches ranks make a run each, or take turns") {
  const CountingSource source(50, kShape);
  const TransformList none;
  const TrainingOrder order(50, 24, true);
  for (const bool takes_turns : {false, true}) {
    for (int64_t rank = 0; rank < 3; ++rank) {
      const TrainingBatches training{.seed = 3,
                                     .order = order,
                                     .micro_batch = 4,
                                     .share = {.rank = rank, .ranks = 3},
                                     .turn = takes_turns ? 4 : 0};
      DataPipeline pipeline(image_batches(source, make_chain(none, kShape), training), {});
      for (int64_t part = 0; part < 2; ++part)
        CHECK(pipeline.next().first == 4 * (takes_turns ? 3 * part + rank : 2 * rank + part));
    }
  }
}

TEST_CASE("ranks take together what one takes, in either order") {
  const CountingSource source(50, kShape);
  const TransformList none;
  for (const ShuffleBlocks& blocks : {ShuffleBlocks{}, ShuffleBlocks{4, 3}}) {
    const TrainingOrder order(50, 8, true, nullptr, blocks);
    const auto labels = [&](int64_t ranks) {
      std::vector<int32_t> all;
      for (int64_t step = 0; step < 12; ++step) {
        for (int64_t rank = 0; rank < ranks; ++rank) {
          const TrainingBatches training{.seed = 3,
                                         .order = order,
                                         .micro_batch = 4,
                                         .first_step = step,
                                         .share = {.rank = rank, .ranks = ranks}};
          DataPipeline pipeline(image_batches(source, make_chain(none, kShape), training), {.workers = 0});
          for (int64_t part = 0; part < 2 / ranks; ++part) {
            const Batch& batch = pipeline.next();
            all.insert(all.end(), labels_of(batch), labels_of(batch) + 4);
          }
        }
      }
      return all;
    };
    CHECK(labels(1) == labels(2));
  }
}

TEST_CASE("a batch of several turns has the samples that smaller ones have in turn") {
  const CountingSource source(50, kShape);
  const TransformList none;
  const int64_t turn = GENERATE(0, 2, 4);
  for (int64_t rank = 0; rank < 3; ++rank) {
    TrainingBatches training{.seed = 3,
                             .order = TrainingOrder(50, 24, true),
                             .micro_batch = 8,
                             .share = {.rank = rank, .ranks = 3},
                             .turn = turn};
    DataPipeline whole(image_batches(source, make_chain(none, kShape), training), {});
    training.micro_batch = 2;
    DataPipeline pieces(image_batches(source, make_chain(none, kShape), training), {});
    for (int64_t step = 0; step < 2; ++step) {
      const Batch& all = whole.next();
      for (int64_t row = 0; row < 8; row += 2) {
        const Batch& piece = pieces.next();
        for (int64_t i = 0; i < 2 * numel(kShape); ++i)
          CHECK(images_of(all)[row * numel(kShape) + i] == images_of(piece)[i]);
      }
    }
  }
}

TEST_CASE("batches are the same bits for any number of workers and any prefetch, in either order") {
  const CountingSource source(50, kShape);
  const TransformList list = augmentation();
  const ShuffleBlocks blocks = GENERATE(ShuffleBlocks{}, ShuffleBlocks{4, 3});
  for (uint64_t seed : {1u, 2u}) {
    for (bool drop_last : {true, false}) {
      Training training;
      training.seed = seed;
      training.drop_last = drop_last;
      training.blocks = blocks;
      const auto expected = training_bits(source, list, training, {0, 1}, 40);
      for (int64_t workers : {0, 1, 2, 4}) {
        for (int64_t prefetch : {1, 4}) {
          CHECK(training_bits(source, list, training, {workers, prefetch}, 40) == expected);
        }
      }
      training.first_step = 7;
      auto rest = expected;
      rest.erase(rest.begin(), rest.begin() + 14);
      CHECK(training_bits(source, list, training, {2, 3}, 26) == rest);
      training.first_step = 0;
      training.seed = seed + 10;
      CHECK(training_bits(source, list, training, {1, 4}, 1)[0] != expected[0]);
    }
  }
}

TEST_CASE("augmentation belongs to seed, epoch and sample, not to the split into micro-batches") {
  const CountingSource source(36, kShape);
  const TransformList list = augmentation();
  const TrainingOrder order(36, 12, true);
  std::vector<std::vector<float>> streams;
  for (int64_t micro_batch : {1, 4, 12}) {
    DataPipeline pipeline(
        image_batches(source, make_chain(list, kShape), TrainingBatches{8, order, micro_batch}), {2, 3});
    std::vector<float> pixels;
    for (int64_t i = 0; i < 72; i += micro_batch) {
      const float* images = images_of(pipeline.next());
      pixels.insert(pixels.end(), images, images + micro_batch * kPixels);
    }
    streams.push_back(pixels);
  }
  CHECK(streams[0] == streams[1]);
  CHECK(streams[0] == streams[2]);

  // A sample of the first epoch is augmented in another way in the second.
  int same = 0;
  for (int64_t i = 0; i < 36; ++i) {
    const int64_t sample = shuffled_index(8, 0, i, 36);
    for (int64_t j = 0; j < 36; ++j) {
      if (shuffled_index(8, 1, j, 36) != sample) continue;
      const auto first = streams[0].begin() + i * kPixels, second = streams[0].begin() + (36 + j) * kPixels;
      same += std::equal(first, first + kPixels, second);
    }
  }
  CHECK(same < 8);  // of 50 equally likely results, one is the same by chance
}

TEST_CASE("evaluation takes every sample once, in order, and pads the last batch") {
  const int64_t workers = GENERATE(0, 1, 3);
  const int64_t size = GENERATE(1, 7, 8, 20);
  const CountingSource source(size, kShape);
  const TransformList none;
  DataPipeline pipeline(image_batches(source, make_chain(none, kShape), EvaluationBatches{source.size(), 8}),
                        {workers, 2});
  for (int pass = 0; pass < 3; ++pass) {
    const int64_t batches = (size + 7) / 8;
    CHECK(pipeline.remaining() == batches);
    for (int64_t number = 0; number < batches; ++number) {
      const Batch& batch = pipeline.next();
      CHECK(batch.step == number);
      CHECK(batch.real == std::min<int64_t>(8, size - number * 8));
      for (int64_t row = 0; row < 8; ++row) {
        const int64_t sample = number * 8 + row;
        const bool real = sample < size;
        CHECK(weights_of(batch)[row] == (real ? 1.0f : 0.0f));
        CHECK(labels_of(batch)[row] == (real ? sample % 10 : 0));
        CHECK(sample_index_of(batch)[row] == (real ? sample : RowPlace::kPadding));
        const float* pixels = images_of(batch) + row * kPixels;
        CHECK(pixels[2] == Approx(real ? static_cast<double>(sample + 14) / 255 : 0).epsilon(1e-6));
        if (!real) CHECK(std::all_of(pixels, pixels + kPixels, [](float x) { return x == 0; }));
      }
    }
    CHECK(pipeline.remaining() == 0);
    CHECK_THROWS_AS(pipeline.next(), std::logic_error);
    pipeline.restart();
  }
}

TEST_CASE("ranks that share an evaluation give each sample its number, whatever the batches") {
  const CountingSource source(20, kShape);
  const TransformList none;
  for (const auto& [ranks, rows] : {std::pair<int64_t, int64_t>{1, 3}, {3, 4}, {2, 1}}) {
    std::vector<int32_t> numbers;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const EvaluationBatches batches{.samples = 16, .batch = rows, .share = {rank, ranks}, .first = 4};
      DataPipeline pipeline(image_batches(source, make_chain(none, kShape), batches), {.workers = 0});
      while (pipeline.remaining() > 0) {
        const Batch& batch = pipeline.next();
        for (int64_t row = 0; row < batch.real; ++row) {
          const int32_t number = sample_index_of(batch)[row];
          CHECK(labels_of(batch)[row] == number % 10);
          numbers.push_back(number);
        }
      }
    }
    std::ranges::sort(numbers);
    REQUIRE(numbers.size() == 16);
    for (size_t i = 0; i < numbers.size(); ++i) CHECK(numbers[i] == static_cast<int32_t>(i) + 4);
  }
}

TEST_CASE("restart in the middle of a pass, again and again") {
  const int64_t workers = GENERATE(0, 1, 3);
  const auto source = make_synthetic(1, Split::val, 100, kShape, 10);
  const TransformList none;
  DataPipeline pipeline(
      image_batches(*source, make_chain(none, kShape), EvaluationBatches{source->size(), 8}), {workers, 3});
  std::vector<std::string> expected;
  while (pipeline.remaining() > 0) expected.push_back(bits(pipeline.next(), 8));
  CHECK(expected.size() == 13);
  for (size_t taken = 0; taken <= 13; ++taken) {
    pipeline.restart();
    for (size_t i = 0; i < taken; ++i) CHECK(bits(pipeline.next(), 8) == expected[i]);
  }
}

TEST_CASE("what a worker throws comes out of next() at its batch, and the others go on") {
  const int64_t workers = GENERATE(0, 1, 3);
  const CountingSource source(40, kShape, 21);
  const TransformList none;
  DataPipeline pipeline(image_batches(source, make_chain(none, kShape), EvaluationBatches{source.size(), 8}),
                        {workers, 4});
  for (int pass = 0; pass < 2; ++pass) {
    for (int64_t number = 0; number < 5; ++number) {
      if (number == 2) {
        CHECK(data_error([&] { pipeline.next(); }) == "sample 21 is bad");
      } else {
        CHECK(pipeline.next().step == number);
      }
    }
    pipeline.restart();
  }
}

/// Each sample takes a while, as decoding would.
class SlowSource : public CountingSource {
 public:
  using CountingSource::CountingSource;
  void read(int64_t index, Image& into) const override {
    ++reads;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    CountingSource::read(index, into);
  }
  mutable std::atomic<int64_t> reads = 0;
};

TEST_CASE("a pipeline ends within a sample or so, whatever its workers are doing") {
  const int64_t workers = GENERATE(1, 3);
  const SlowSource source(4096, kShape);
  const TransformList none;
  constexpr int64_t kBatch = 40;
  auto pipeline = std::make_unique<DataPipeline>(
      image_batches(source, make_chain(none, kShape), EvaluationBatches{source.size(), kBatch}),
      Loading{workers, 4});
  while (source.reads < workers) std::this_thread::yield();
  const int64_t before = source.reads;
  pipeline.reset();
  // Half a batch allows for a busy machine; workers that finished theirs would read nearly all of it.
  CHECK(source.reads - before < workers * kBatch / 2);
}

TEST_CASE("the batch at hand stays as it is while workers go on") {
  const auto source = make_synthetic(3, Split::train, 200, kShape, 10);
  const TransformList none;
  DataPipeline pipeline(
      image_batches(*source, make_chain(none, kShape), EvaluationBatches{source->size(), 4}), {3, 1});
  while (pipeline.remaining() > 0) {
    const Batch& batch = pipeline.next();
    const std::string before = bits(batch, 4);
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    CHECK(bits(batch, 4) == before);
  }
}

TEST_CASE("the ring is one aligned buffer per slot, of the bytes that were announced") {
  const int64_t workers = GENERATE(0, 1, 6);
  const CountingSource source(100, kShape);
  const TransformList none;
  int64_t asked = 0, buffers = 0;
  const auto allocate = [&](int64_t bytes) {
    asked += bytes;
    ++buffers;
    return allocate_host(bytes);
  };
  DataPipeline pipeline(image_batches(source, make_chain(none, kShape), EvaluationBatches{source.size(), 7}),
                        {.workers = workers, .prefetch = 4, .allocate = allocate});
  CHECK(buffers == (workers == 0   ? 1
                    : workers == 1 ? 5
                                   : 8));  // one kept, and 4 ahead or one more than workers
  CHECK(asked == DataPipeline::ring_bytes(image_inputs(kShape), 7, {.workers = workers, .prefetch = 4}));
  CHECK(asked / buffers == 1728 + 5 * 64);  // 7 rows of 60 floats are 1680 bytes; 7 numbers are 28
  const Batch& batch = pipeline.next();
  for (const void* array :
       {static_cast<const void*>(images_of(batch)), static_cast<const void*>(labels_of(batch)),
        static_cast<const void*>(weights_of(batch)), static_cast<const void*>(sample_index_of(batch))}) {
    CHECK(reinterpret_cast<uintptr_t>(array) % 64 == 0);
  }
}

TEST_CASE("next() allocates nothing") {
  const int64_t workers = GENERATE(0, 1, 3);
  const auto source = make_synthetic(1, Split::train, 500, kShape, 10);
  const TransformList list = augmentation();
  const TrainingOrder order(500, 32, false);
  DataPipeline pipeline(image_batches(*source, make_chain(list, kShape), TrainingBatches{1, order, 16}),
                        {workers, 2});
  const int64_t before = allocations_here();
  for (int i = 0; i < 100; ++i) pipeline.next();
  CHECK(allocations_here() == before);
  // The counter counts.
  CHECK(std::make_unique<int>(1) != nullptr);
  CHECK(allocations_here() > before);
}

TEST_CASE("a micro-batch that does not divide the global batch is an error of the recipe") {
  const CountingSource source(100, kShape);
  const TransformList none;
  const TrainingOrder order(100, 12, true);
  CHECK_THROWS_WITH(image_batches(source, make_chain(none, kShape), TrainingBatches{1, order, 5}),
                    "training.micro_batch_size: must divide training.global_batch_size 12, got 5");
}

TEST_CASE("the last batches stay as they are, as many as are kept") {
  const int64_t workers = GENERATE(0, 3);
  const CountingSource source(100, kShape);
  const TransformList none;
  const TrainingOrder order(100, 6, true);
  DataPipeline pipeline(image_batches(source, make_chain(none, kShape), TrainingBatches{3, order, 6}),
                        {.workers = workers, .prefetch = 3, .kept = 3});
  std::vector<const Batch*> batches;
  std::vector<std::string> first_seen;
  for (size_t number = 0; number < 40; ++number) {
    batches.push_back(&pipeline.next());
    first_seen.push_back(bits(*batches.back(), 6));
    if (number % 7 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // workers advance as far as they may
    for (size_t back = 0; back < std::min<size_t>(3, number + 1); ++back) {
      CHECK(bits(*batches[number - back], 6) == first_seen[number - back]);
    }
  }
}

}  // namespace
}  // namespace trainer
