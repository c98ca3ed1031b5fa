// SPDX-License-Identifier: Apache-2.0
#include "core/data/batch.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

namespace trainer {
namespace {

constexpr int64_t kAlignment = 64;  // a cache line, and the widest vector

int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

int64_t image_bytes(const Shape& sample, int64_t rows) {
  Shape batch = sample;
  batch.insert(batch.begin(), {rows, static_cast<int64_t>(sizeof(float))});
  return aligned(numel(batch));
}

}  // namespace

int64_t batch_bytes(const Shape& sample, int64_t rows) {
  const int64_t column = aligned(rows * static_cast<int64_t>(sizeof(int32_t)));
  return image_bytes(sample, rows) + 3 * column;
}

Batch place_batch(std::byte* memory, const Shape& sample, int64_t rows) {
  const int64_t column = aligned(rows * static_cast<int64_t>(sizeof(int32_t)));
  std::byte* columns = memory + image_bytes(sample, rows);
  Batch batch;
  batch.images = reinterpret_cast<float*>(memory);
  batch.labels = reinterpret_cast<int32_t*>(columns);
  batch.weights = reinterpret_cast<float*>(columns + column);
  batch.sample_index = reinterpret_cast<int32_t*>(columns + 2 * column);
  return batch;
}

BatchMaker::BatchMaker(const DataSource& source, TransformChain chain, const TrainingBatches& training)
    : source_(&source),
      chain_(std::move(chain)),
      training_(training),
      augment_key_(random_key(training.seed, "augment")),
      rows_(training.micro_batch),
      row_floats_(numel(chain_.output_shape())),
      end_(std::numeric_limits<int64_t>::max()) {
  const int64_t global_batch = training.order.global_batch();
  if (rows_ < 1 || global_batch % rows_ != 0) {
    throw Error(ExitCode::recipe,
                fmt::format("training.micro_batch_size: must divide training.global_batch_size {}, got {}",
                            global_batch, rows_));
  }
  first_ = training.first_step * (global_batch / rows_);
}

BatchMaker::BatchMaker(const DataSource& source, TransformChain chain, const EvaluationBatches& evaluation)
    : source_(&source),
      chain_(std::move(chain)),
      rows_(evaluation.batch),
      row_floats_(numel(chain_.output_shape())),
      end_((source.size() + rows_ - 1) / rows_) {}

void BatchMaker::make(int64_t number, Batch& batch, Image& image, const std::atomic<bool>& interrupt) const {
  batch.real = rows_;
  batch.step = number;
  batch.first = batch.epoch = 0;
  if (training_) {
    const int64_t parts = training_->order.global_batch() / rows_;
    batch.step = number / parts;
    batch.first = number % parts * rows_;
    batch.epoch = training_->order.at(batch.step, batch.first).epoch;
  } else {
    batch.real = std::min(rows_, source_->size() - number * rows_);
  }
  for (int64_t row = 0; row < rows_ && !interrupt.load(std::memory_order_relaxed); ++row) {
    batch.sample_index[row] = static_cast<int32_t>(batch.first + row);
    if (training_) {
      make_training_row(batch, row, image);
    } else {
      make_evaluation_row(batch, row, image);
    }
  }
}

void BatchMaker::make_training_row(Batch& batch, int64_t row, Image& image) const {
  const TrainingOrder& order = training_->order;
  const auto [epoch, index] = order.at(batch.step, batch.first + row);
  const int64_t sample = shuffled_index(training_->seed, epoch, index, order.size());
  const RandomStream random(augment_key_, static_cast<uint32_t>(epoch), static_cast<uint32_t>(sample));
  chain_.read(*source_, sample, random, image);
  chain_.write(image, batch.images + row * row_floats_);
  batch.labels[row] = image.label;
  batch.weights[row] = 1.0f / static_cast<float>(order.global_batch());
}

void BatchMaker::make_evaluation_row(Batch& batch, int64_t row, Image& image) const {
  float* pixels = batch.images + row * row_floats_;
  if (row >= batch.real) {
    std::fill_n(pixels, row_floats_, 0.0f);
    batch.labels[row] = 0;
    batch.weights[row] = 0;
    return;
  }
  const RandomStream unused(0);  // evaluation has no random transforms
  chain_.read(*source_, batch.step * rows_ + row, unused, image);
  chain_.write(image, pixels);
  batch.labels[row] = image.label;
  batch.weights[row] = 1;
}

}  // namespace trainer
