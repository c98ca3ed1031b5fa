// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/mix.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>
#include "tests/catch.h"

#include "core/data/images/synthetic.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

constexpr uint64_t kSeed = 11;
constexpr int64_t kGlobalBatch = 12, kMixedPixels = 60;
const Shape kMixedShape = {2, 6, 5};

TEST_CASE("draws from Beta(alpha, alpha) have its mean and variance") {
  const double alpha = GENERATE(0.05, 0.2, 0.7, 1.0, 2.5, 40.0);
  RandomStream random(random_key(5, "beta"));
  constexpr int kDraws = 40000;
  double sum = 0, squares = 0;
  std::vector<int> tenths(10);
  for (int i = 0; i < kDraws; ++i) {
    const double x = draw_beta(alpha, random);
    REQUIRE(x >= 0);
    REQUIRE(x <= 1);
    sum += x;
    squares += (x - 0.5) * (x - 0.5);
    ++tenths[std::min<size_t>(9, static_cast<size_t>(10 * x))];
  }
  const double variance = 1 / (4 * (2 * alpha + 1));
  CHECK(sum / kDraws == Approx(0.5).margin(5 * std::sqrt(variance / kDraws)));
  CHECK(squares / kDraws == Approx(variance).epsilon(0.03));
  if (alpha != 1.0) return;
  for (int count : tenths) CHECK(count == Approx(kDraws / 10.0).margin(5 * std::sqrt(kDraws * 0.09)));
}

TEST_CASE("each sample of a step is partner of exactly one other, by another shift from step to step") {
  const int64_t global_batch = GENERATE(2, 3, 12);
  const MixingDraw mixing({.mixup = 0.4}, kSeed, global_batch);
  std::set<int64_t> shifts;
  for (int64_t step = 0; step < 200; ++step) {
    std::set<int64_t> partners;
    for (int64_t row = 0; row < global_batch; ++row) {
      const int64_t partner = mixing.draw(step, row, 8, 8).partner;
      CHECK(partner != row);
      partners.insert(partner);
      shifts.insert((partner - row + global_batch) % global_batch);
    }
    CHECK(partners.size() == static_cast<size_t>(global_batch));
    CHECK(*partners.rbegin() == global_batch - 1);
  }
  CHECK(shifts.size() == static_cast<size_t>(global_batch - 1));
}

TEST_CASE("a window of cutmix lies in the image and its area is what the label loses") {
  const MixingDraw mixing({.cutmix = 1.0}, kSeed, 64);
  const int64_t height = 32, width = 20;
  double kept = 0;
  std::set<int64_t> tops, lefts;
  for (int64_t i = 0; i < 6400; ++i) {
    const Mixing m = mixing.draw(i / 64, i % 64, height, width);
    REQUIRE((m.top >= 0 && m.left >= 0 && m.top + m.height <= height && m.left + m.width <= width));
    CHECK(m.kept == 0);
    CHECK(m.mix_weight ==
          Approx(1 - static_cast<double>(m.height * m.width) / static_cast<double>(height * width)));
    kept += m.mix_weight;
    tops.insert(m.top);
    lefts.insert(m.left);
  }
  // A window with sides of the share r of the image's, cut at the edges, keeps r (1 - r / 4) of each side on
  // average. Of the area it keeps E[r^2 (1 - r / 4)^2] for r^2 uniform, which is 1/2 - 1/5 + 1/48.
  CHECK(kept / 6400 == Approx(1 - (1.0 / 2 - 1.0 / 5 + 1.0 / 48)).margin(0.03));
  CHECK(tops.size() >= 30);
  CHECK(lefts.size() >= 18);
}

TEST_CASE("with both, half of the samples are mixed each way") {
  const MixingDraw mixing({.mixup = 0.2, .cutmix = 1.0}, kSeed, 64);
  int blended = 0;
  for (int64_t i = 0; i < 6400; ++i) {
    const Mixing m = mixing.draw(i / 64, i % 64, 32, 32);
    blended += m.kept != 0;
    if (m.kept != 0) CHECK((m.height == 32 && m.width == 32 && m.mix_weight == m.kept));
  }
  CHECK(blended == Approx(3200).margin(200));
}

/// All rows of a few steps, one after another.
struct Rows {
  std::vector<float> images, mix_weights;
  std::vector<int32_t> labels, others;
  bool operator==(const Rows&) const = default;
};

Rows rows_of(const ImageSource& source, const TransformList& list, const Mix& mix, int64_t micro_batch,
             int64_t workers, bool drop_last = true) {
  const TrainingOrder order(source.size(), kGlobalBatch, drop_last);
  DataPipeline pipeline(
      image_batches(source, make_chain(list, kMixedShape),
                    TrainingBatches{.seed = kSeed, .order = order, .micro_batch = micro_batch}, mix),
      {.workers = workers, .prefetch = 3});
  Rows rows;
  for (int64_t done = 0; done < 5 * kGlobalBatch; done += micro_batch) {
    const Batch& batch = pipeline.next();
    rows.images.insert(rows.images.end(), images_of(batch), images_of(batch) + micro_batch * kMixedPixels);
    rows.mix_weights.insert(rows.mix_weights.end(), mix_weights_of(batch),
                            mix_weights_of(batch) + micro_batch);
    rows.labels.insert(rows.labels.end(), labels_of(batch), labels_of(batch) + micro_batch);
    rows.others.insert(rows.others.end(), other_labels_of(batch), other_labels_of(batch) + micro_batch);
  }
  return rows;
}

TEST_CASE("mixed rows are the same bits for any micro-batch and any number of workers") {
  const CountingSource source(50, kMixedShape);
  const TransformList list = augmentation();
  const bool drop_last = GENERATE(true, false);
  const Mix mix{.mixup = 0.4, .cutmix = 1.0};
  const Rows expected = rows_of(source, list, mix, kGlobalBatch, 0, drop_last);
  for (int64_t micro_batch : {1, 4, 12}) {
    for (int64_t workers : {0, 1, 3})
      CHECK((rows_of(source, list, mix, micro_batch, workers, drop_last) == expected));
  }
}

TEST_CASE("a mixed row is itself and its partner as they are without mixing, labels by their weights") {
  const CountingSource source(50, kMixedShape);
  const TransformList list = augmentation();
  const Mix mix = GENERATE(Mix{.mixup = 0.4}, Mix{.cutmix = 1.0}, Mix{.mixup = 1.0, .cutmix = 1.0});
  const Rows plain = rows_of(source, list, {}, 4, 1), mixed = rows_of(source, list, mix, 4, 1);
  CHECK(plain.others == plain.labels);
  CHECK(plain.mix_weights == std::vector<float>(plain.labels.size(), 1.0f));
  const MixingDraw draw(mix, kSeed, kGlobalBatch);
  for (size_t i = 0; i < plain.labels.size(); ++i) {
    const auto step = static_cast<int64_t>(i) / kGlobalBatch, row = static_cast<int64_t>(i) % kGlobalBatch;
    const Mixing m = draw.draw(step, row, kMixedShape[1], kMixedShape[2]);
    const auto partner = static_cast<size_t>(step * kGlobalBatch + m.partner);
    const bool own_first = m.mix_weight >= 0.5f;
    CHECK(mixed.labels[i] == plain.labels[own_first ? i : partner]);
    if (m.mix_weight < 1) CHECK(mixed.others[i] == plain.labels[own_first ? partner : i]);
    CHECK(mixed.mix_weights[i] == Approx(std::max(m.mix_weight, 1 - m.mix_weight)));
    int64_t differing = 0;
    for (int64_t p = 0; p < kMixedPixels; ++p) {
      const int64_t y = p / kMixedShape[2] % kMixedShape[1], x = p % kMixedShape[2];
      const bool inside = y >= m.top && y < m.top + m.height && x >= m.left && x < m.left + m.width;
      const float own = plain.images[i * kMixedPixels + static_cast<size_t>(p)];
      const float other = plain.images[partner * kMixedPixels + static_cast<size_t>(p)];
      const double expected = inside ? m.kept * own + (1.0 - m.kept) * other : own;
      differing += std::abs(mixed.images[i * kMixedPixels + static_cast<size_t>(p)] - expected) > 1e-6;
    }
    CHECK(differing == 0);
  }
}

TEST_CASE("of sets of labels, a mixed row has each class by the share of the images that have it") {
  constexpr int64_t kSetClasses = 5, kSteps = 5;
  const auto source = make_synthetic(3, Split::train, 50, kMixedShape, kSetClasses, true);
  const Mix mix = GENERATE(Mix{.mixup = 0.4}, Mix{.cutmix = 1.0});
  const BatchInputs inputs = {{"images", DType::f32, kMixedShape}, {"targets", DType::f32, {kSetClasses}}};
  const auto targets_of = [&](const Mix& how) {
    const TrainingBatches batches{
        .seed = kSeed, .order = TrainingOrder(50, kGlobalBatch, true), .micro_batch = kGlobalBatch};
    DataPipeline pipeline(image_batches(*source, make_chain({}, kMixedShape), batches, how, inputs), {});
    std::vector<float> all;
    for (int64_t step = 0; step < kSteps; ++step) {
      const auto* first = pipeline.next().find<float>("targets");
      all.insert(all.end(), first, first + kGlobalBatch * kSetClasses);
    }
    return all;
  };
  const std::vector<float> plain = targets_of({}), mixed = targets_of(mix);
  const MixingDraw draw(mix, kSeed, kGlobalBatch);
  int64_t shares = 0;
  for (int64_t i = 0; i < kSteps * kGlobalBatch; ++i) {
    const Mixing m = draw.draw(i / kGlobalBatch, i % kGlobalBatch, kMixedShape[1], kMixedShape[2]);
    const int64_t partner = i / kGlobalBatch * kGlobalBatch + m.partner;
    for (int64_t c = 0; c < kSetClasses; ++c) {
      const auto at = [&](const std::vector<float>& all, int64_t row) {
        return all[static_cast<size_t>(row * kSetClasses + c)];
      };
      const float own = at(plain, i), other = m.mix_weight == 1 ? own : at(plain, partner);
      CHECK((own == 0 || own == 1));
      CHECK(at(mixed, i) == Approx(m.mix_weight * own + (1 - m.mix_weight) * other).margin(1e-6));
      shares += at(mixed, i) > 0 && at(mixed, i) < 1;
    }
  }
  CHECK(shares > 20);
}

TEST_CASE("label maps follow the augmented image, and padding has none") {
  const Shape shape = {3, 9, 7};
  const int64_t classes = 4, pixels = 63;
  const auto source = make_synthetic(3, Split::train, 10, shape, classes);
  TransformList list;
  list.push_back(make_transform("horizontal_flip"));
  set(*list[0], "p", 1.0);
  const TransformList none;
  BatchInputs inputs = image_inputs(shape);
  inputs[*find_input(inputs, "labels")].row = {shape[1], shape[2]};
  const EvaluationBatches batches{10, 4};
  DataPipeline plain(image_batches(*source, make_chain(none, shape), batches, {}, inputs), {});
  DataPipeline flipped(image_batches(*source, make_chain(list, shape), batches, {}, inputs), {});
  std::set<int32_t> found;
  for (int number = 0; number < 3; ++number) {
    const Batch &a = plain.next(), &b = flipped.next();
    for (int64_t i = 0; i < 4 * pixels; ++i) {
      const int64_t row = i / 7, x = i % 7;
      CHECK(labels_of(a)[row * 7 + x] == labels_of(b)[row * 7 + 6 - x]);
      if (i / pixels < a.real) found.insert(labels_of(a)[i]);
      if (i / pixels >= a.real) CHECK(labels_of(a)[i] == 0);
    }
  }
  CHECK(found == std::set<int32_t>{0, 1, 2, 3});
}

}  // namespace
}  // namespace trainer
