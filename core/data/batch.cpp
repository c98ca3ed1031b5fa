// SPDX-License-Identifier: Apache-2.0
#include "core/data/batch.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace trainer {
namespace {

constexpr int64_t kAlignment = 64;  // a cache line, and the widest vector

int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

int64_t image_bytes(const Shape& sample, int64_t rows, Content content) {
  if (content == Content::samples) return 0;
  const size_t each = content == Content::bytes ? sizeof(uint8_t) : sizeof(float);
  Shape batch = sample;
  batch.insert(batch.begin(), {rows, static_cast<int64_t>(each)});
  return aligned(numel(batch));
}

int64_t labels_per_sample(const Shape& sample, Labels labels) {
  return labels == Labels::per_pixel ? sample[1] * sample[2] : 1;
}

int64_t label_bytes(const Shape& sample, int64_t rows, const BatchForm& form) {
  if (form.content == Content::samples) return 0;
  return aligned(rows * labels_per_sample(sample, form.labels) * static_cast<int64_t>(sizeof(int32_t)));
}

/// Arrays with one number of four bytes per sample, the labels aside.
constexpr int64_t kColumns = 4;

int64_t column_bytes(int64_t rows) {
  return aligned(rows * static_cast<int64_t>(sizeof(int32_t)));
}

}  // namespace

int64_t batch_bytes(const Shape& sample, int64_t rows, const BatchForm& form) {
  return image_bytes(sample, rows, form.content) + label_bytes(sample, rows, form) +
         kColumns * column_bytes(rows);
}

Batch place_batch(std::byte* memory, const Shape& sample, int64_t rows, const BatchForm& form) {
  const int64_t column = column_bytes(rows);
  std::byte* labels = memory + image_bytes(sample, rows, form.content);
  std::byte* columns = labels + label_bytes(sample, rows, form);
  Batch batch;
  if (form.content == Content::numbers) batch.images = reinterpret_cast<float*>(memory);
  if (form.content == Content::bytes) batch.pixels = reinterpret_cast<uint8_t*>(memory);
  batch.weights = reinterpret_cast<float*>(columns);
  batch.sample_index = reinterpret_cast<int32_t*>(columns + column);
  if (form.content == Content::samples) {
    batch.sample_numbers = reinterpret_cast<int32_t*>(columns + 2 * column);
    batch.sample_epochs = reinterpret_cast<int32_t*>(columns + 3 * column);
  } else {
    batch.labels = reinterpret_cast<int32_t*>(labels);
    batch.other_labels = reinterpret_cast<int32_t*>(columns + 2 * column);
    batch.shares = reinterpret_cast<float*>(columns + 3 * column);
  }
  return batch;
}

BatchMaker::BatchMaker(const DataSource& source, TransformChain chain, const TrainingBatches& training,
                       const BatchForm& form)
    : source_(&source),
      chain_(std::move(chain)),
      training_(training),
      augment_key_(random_key(training.seed, "augment")),
      rows_(training.micro_batch),
      row_elements_(numel(chain_.output_shape())),
      end_(std::numeric_limits<int64_t>::max()),
      form_(form) {
  const int64_t global_batch = training.order.global_batch();
  if (rows_ < 1 || global_batch % rows_ != 0) {
    throw Error(ExitCode::recipe,
                fmt::format("training.micro_batch_size: must divide training.global_batch_size {}, got {}",
                            global_batch, rows_));
  }
  first_ = training.first_step * (global_batch / rows_);
  const bool blends = training.mix.mixup > 0, mixes = training.mix.any();
  if ((blends && form.content == Content::bytes) || (mixes && form.content == Content::samples))
    throw std::logic_error("mixup blends numbers, and a device mixes none of its samples");
  if (training.mix.any()) mixing_.emplace(training.mix, training.seed, global_batch);
}

BatchMaker::BatchMaker(const DataSource& source, TransformChain chain, const EvaluationBatches& evaluation,
                       const BatchForm& form)
    : source_(&source),
      chain_(std::move(chain)),
      rows_(evaluation.batch),
      row_elements_(numel(chain_.output_shape())),
      end_((source.size() + rows_ - 1) / rows_),
      form_(form),
      unreadable_(evaluation.unreadable) {}

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
    if (form_.content == Content::samples) {
      name_sample(batch, row);
    } else if (training_) {
      make_training_row(batch, row, image);
    } else {
      make_evaluation_row(batch, row, image);
    }
  }
}

/// Which one is number i of [0, global batch) of a step.
int64_t BatchMaker::training_sample(int64_t step, int64_t i, int64_t& epoch) const {
  const TrainingOrder& order = training_->order;
  const TrainingOrder::Position position = order.at(step, i);
  epoch = position.epoch;
  return shuffled_index(training_->seed, epoch, position.index, order.size());
}

/// Sample number i of [0, global batch) of a step, augmented.
void BatchMaker::load_training_sample(int64_t step, int64_t i, Image& image) const {
  int64_t epoch = 0;
  const int64_t sample = training_sample(step, i, epoch);
  const RandomStream random(augment_key_, static_cast<uint32_t>(epoch), static_cast<uint32_t>(sample));
  chain_.read(*source_, sample, random, image);
}

void BatchMaker::name_sample(Batch& batch, int64_t row) const {
  int64_t sample = -1, epoch = 0;
  if (training_) {
    sample = training_sample(batch.step, batch.first + row, epoch);
    batch.weights[row] = 1.0f / static_cast<float>(training_->order.global_batch());
  } else {
    if (row < batch.real) sample = batch.step * rows_ + row;
    batch.weights[row] = row < batch.real ? 1.0f : 0.0f;
  }
  batch.sample_numbers[row] = static_cast<int32_t>(sample);
  batch.sample_epochs[row] = static_cast<int32_t>(epoch);
}

void BatchMaker::make_training_row(Batch& batch, int64_t row, Image& image) const {
  load_training_sample(batch.step, batch.first + row, image);
  write_image(batch, row, image);
  write_label(batch, row, image);
  batch.weights[row] = 1.0f / static_cast<float>(training_->order.global_batch());
  if (mixing_) mix_row(batch, row, image);
}

/// The partner is loaded once more, as its own row has it: rows of one micro-batch do not depend on others.
void BatchMaker::mix_row(Batch& batch, int64_t row, Image& image) const {
  const Mixing mixing = mixing_->draw(batch.step, batch.first + row, image.height, image.width);
  if (mixing.share == 1) return;
  load_training_sample(batch.step, mixing.partner, image);
  if (form_.content == Content::bytes) {
    chain_.mix_into(image, mixing, batch.pixels + row * row_elements_);
  } else {
    chain_.mix_into(image, mixing, batch.images + row * row_elements_);
  }
  batch.other_labels[row] = image.label;
  batch.shares[row] = mixing.share;
  if (mixing.share >= 0.5f) return;
  std::swap(batch.labels[row], batch.other_labels[row]);
  batch.shares[row] = 1 - mixing.share;
}

void BatchMaker::write_image(Batch& batch, int64_t row, const Image& image) const {
  if (form_.content == Content::bytes) {
    chain_.write(image, batch.pixels + row * row_elements_);
  } else {
    chain_.write(image, batch.images + row * row_elements_);
  }
}

void BatchMaker::write_label(Batch& batch, int64_t row, const Image& image) const {
  if (form_.labels == Labels::per_pixel) {
    source_->map_labels(image, batch.labels + row * image.height * image.width);
  } else {
    batch.labels[row] = image.label;
  }
  batch.other_labels[row] = image.label;
  batch.shares[row] = 1;
}

void BatchMaker::make_empty_row(Batch& batch, int64_t row) const {
  const int64_t count = labels_per_sample(chain_.output_shape(), form_.labels);
  if (batch.images != nullptr) std::fill_n(batch.images + row * row_elements_, row_elements_, 0.0f);
  if (batch.pixels != nullptr) std::fill_n(batch.pixels + row * row_elements_, row_elements_, uint8_t{0});
  std::fill_n(batch.labels + row * count, count, 0);
  batch.weights[row] = 0;
  batch.other_labels[row] = 0;
  batch.shares[row] = 1;
}

void BatchMaker::make_evaluation_row(Batch& batch, int64_t row, Image& image) const {
  if (row >= batch.real) return make_empty_row(batch, row);
  const int64_t index = batch.step * rows_ + row;
  const RandomStream unused(0);  // evaluation has no random transforms
  try {
    chain_.read(*source_, index, unused, image);
  } catch (const UnreadableSampleError& error) {
    if (!unreadable_) throw;
    unreadable_(index, error.sample());
    return make_empty_row(batch, row);
  }
  write_image(batch, row, image);
  write_label(batch, row, image);
  batch.weights[row] = 1;
}

}  // namespace trainer
