// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <semaphore>
#include <stdexcept>
#include "tests/catch.h"

#include "core/data/images/synthetic.h"
#include "core/data/pipeline.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

const Shape kRingShape = {2, 6, 5};

BatchMaker pass_over(const ImageSource& source, int64_t rows) {
  const TransformList none;
  return image_batches(source, make_chain(none, kRingShape), EvaluationBatches{source.size(), rows});
}

/// Reads sample `held` only when it is released.
class HeldSource : public CountingSource {
 public:
  HeldSource(int64_t count, int64_t held) : CountingSource(count, kRingShape), held_(held) {}
  void read(int64_t index, Image& into) const override {
    if (index == held_) {
      is_reached.release();
      may_go.acquire();
    }
    CountingSource::read(index, into);
  }
  mutable std::binary_semaphore is_reached{0}, may_go{0};

 private:
  int64_t held_;
};

}  // namespace

TEST_CASE("two pipelines take turns in one ring, and each has the batches that it has alone") {
  const int64_t workers = GENERATE(0, 1, 3);
  const auto source = make_synthetic(1, Split::train, 50, kRingShape, 10);
  const TransformList list = augmentation();
  const TrainingOrder order(source->size(), 12, true);
  const auto steps = [&] {
    return image_batches(*source, make_chain(list, kRingShape), TrainingBatches{5, order, 6});
  };
  std::vector<std::string> expected, expected_pass;
  for (DataPipeline alone(steps(), {workers}); expected.size() < 40;)
    expected.push_back(bits(alone.next(), 6));
  for (DataPipeline alone(pass_over(*source, 6), {workers}); alone.remaining() > 0;)
    expected_pass.push_back(bits(alone.next(), 6));

  int64_t buffers = 0;
  Loading loading{.workers = workers, .allocate = [&](int64_t bytes) {
                    ++buffers;
                    return allocate_host(bytes);
                  }};
  DataPipeline trains(steps(), loading);
  const int64_t allocated = buffers;
  loading.ring = trains.ring();
  DataPipeline validates(pass_over(*source, 6), loading);
  CHECK(buffers == allocated);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (i % 9 == 4) {
      validates.restart();
      const size_t taken = i == 4 ? 2 : expected_pass.size();  // one pass is left before its end
      for (size_t batch = 0; batch < taken; ++batch) CHECK(bits(validates.next(), 6) == expected_pass[batch]);
    }
    while (i % 3 == 0 && !trains.ready_within(std::chrono::milliseconds(50))) continue;
    CHECK(bits(trains.next(), 6) == expected[i]);
  }
}

TEST_CASE("a ring is taken over when its last batch is made, and who asks for it waits no longer than said") {
  const HeldSource slow(40, 9);
  const CountingSource source(40, kRingShape);
  DataPipeline first(pass_over(slow, 4), {});
  DataPipeline second(pass_over(source, 4), {.ring = first.ring()});
  const std::string taken = bits(first.next(), 4);
  slow.is_reached.acquire();
  second.restart();
  for (int i = 0; i < 3; ++i) CHECK(!second.ready_within(std::chrono::milliseconds(5)));
  slow.may_go.release();
  CHECK(bits(second.next(), 4) == taken);
  // Batches that the first one was still making are not in the second one's memory.
  DataPipeline alone(pass_over(source, 4), {});
  alone.next();
  const std::string after = bits(alone.next(), 4);
  CHECK(bits(second.next(), 4) == after);
  while (alone.remaining() > 0) CHECK(bits(second.next(), 4) == bits(alone.next(), 4));
  slow.may_go.release();
  CHECK(bits(first.next(), 4) == after);
}

TEST_CASE("a pipeline that could not be paused in time goes on where it was when it is asked again") {
  const HeldSource slow(40, 9);
  const CountingSource source(40, kRingShape);
  DataPipeline alone(pass_over(source, 4), {}), first(pass_over(slow, 4), {});
  DataPipeline second(pass_over(source, 4), {.ring = first.ring()});
  CHECK(bits(first.next(), 4) == bits(alone.next(), 4));
  slow.is_reached.acquire();
  CHECK(!second.ready_within(std::chrono::milliseconds(5)));
  slow.may_go.release();
  CHECK(bits(first.next(), 4) == bits(alone.next(), 4));
  slow.may_go.release();
  while (first.remaining() > 0) CHECK(bits(first.next(), 4) == bits(alone.next(), 4));
}

TEST_CASE("a ring outlives the pipeline that allocated it") {
  const CountingSource source(40, kRingShape);
  auto first = std::make_unique<DataPipeline>(pass_over(source, 4), Loading{});
  DataPipeline second(pass_over(source, 4), {.ring = first->ring()});
  const std::string taken = bits(first->next(), 4);
  const bool has_ring = GENERATE(false, true);
  if (has_ring) CHECK(bits(second.next(), 4) == taken);
  first.reset();
  if (!has_ring) CHECK(bits(second.next(), 4) == taken);
  while (second.remaining() > 0) second.next();
}

TEST_CASE("a ring fits pipelines of equal batches only") {
  const CountingSource source(100, kRingShape);
  const DataPipeline owner(pass_over(source, 4), {});
  CHECK_THROWS_AS(DataPipeline(pass_over(source, 5), {.ring = owner.ring()}), std::logic_error);
  CHECK_THROWS_AS(DataPipeline(pass_over(source, 4), {.workers = 3, .ring = owner.ring()}), std::logic_error);
}

}  // namespace trainer
