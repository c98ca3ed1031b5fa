// SPDX-License-Identifier: Apache-2.0
#include "core/data/batch_maker.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "core/base/error.h"
#include "core/graph/names.h"

namespace trainer {

BatchMaker::OwnInputs::OwnInputs(const BatchInputs& inputs)
    : weights(find_input(inputs, input_name::kWeights)),
      sample_index(find_input(inputs, input_name::kSampleIndex)),
      sample_numbers(find_input(inputs, input_name::kSampleNumbers)),
      sample_epochs(find_input(inputs, input_name::kSampleEpochs)) {
  size_t count = 0;
  for (const auto& input : {weights, sample_index, sample_numbers, sample_epochs}) count += input ? 1 : 0;
  are_all = count == inputs.size();
}

BatchMaker::BatchMaker(std::unique_ptr<RowReader> reader, BatchInputs inputs, int64_t rows)
    : reader_(std::move(reader)), inputs_(std::move(inputs)), own_(inputs_), rows_(rows) {}

BatchMaker::BatchMaker(std::unique_ptr<RowReader> reader, BatchInputs inputs, const TrainingBatches& training)
    : BatchMaker(std::move(reader), std::move(inputs), training.micro_batch) {
  const int64_t global_batch = training.order.global_batch();
  const BatchSplit split{.global_batch = global_batch, .micro_batch = rows_, .share = training.share};
  if (rows_ < 1 || global_batch % rows_ != 0 || global_batch / rows_ < training.share.ranks) {
    throw Error(ExitCode::recipe,
                fmt::format("training.micro_batch_size: must divide training.global_batch_size {}{}, got {}",
                            global_batch,
                            training.share.ranks > 1 ? fmt::format(" into a micro-batch for each of {} ranks",
                                                                   training.share.ranks)
                                                     : "",
                            rows_));
  }
  if (training.turn > 0 && !split.is_even())
    throw std::logic_error("ranks that take turns need as many micro-batches each");
  training_ = training;
  parts_ = split.micro_batches();
  first_row_ = split.first_micro_batch() * rows_;
  first_ = training.first_step * parts_;
  end_ = std::numeric_limits<int64_t>::max();
  weight_ = 1.0f / static_cast<float>(global_batch);
}

BatchMaker::BatchMaker(std::unique_ptr<RowReader> reader, BatchInputs inputs,
                       const EvaluationBatches& evaluation)
    : BatchMaker(std::move(reader), std::move(inputs), evaluation.batch) {
  evaluation_ = evaluation;
  const int64_t rows_of_all = rows_ * evaluation.share.ranks;
  end_ = (evaluation.samples + rows_of_all - 1) / rows_of_all;
}

void BatchMaker::begin(int64_t number, Batch& batch) const {
  if (training_) {
    batch.real = rows_;
    batch.step = number / parts_;
    batch.part = number % parts_;
    batch.first = index_in_step(batch.part * rows_);
    batch.epoch = training_->order.at(batch.step, batch.first).epoch;
  } else {
    const auto [rank, ranks] = evaluation_.share;
    batch.step = number * ranks + rank;
    batch.first = batch.epoch = 0;
    batch.real = std::clamp<int64_t>(evaluation_.samples - batch.step * rows_, 0, rows_);
  }
}

/// Within the global batch, of row `row` of all that this rank has of a step.
int64_t BatchMaker::index_in_step(int64_t row) const {
  const auto [rank, ranks] = training_->share;
  const int64_t turn = training_->turn;
  return turn > 0 ? (row / turn * ranks + rank) * turn + row % turn : first_row_ + row;
}

RowPlace BatchMaker::place_of(const Batch& batch, int64_t row) const {
  if (training_) {
    const int64_t index = index_in_step(batch.part * rows_ + row);
    return shuffled_place(training_->seed, training_->order, batch.step, index);
  }
  return {.step = batch.step,
          .index = row,
          .sample = row < batch.real ? evaluation_.first + batch.step * rows_ + row : RowPlace::kPadding,
          .epoch = 0};
}

void BatchMaker::make(int64_t number, Batch& batch, RowMemory& memory,
                      const std::atomic<bool>& interrupt) const {
  begin(number, batch);
  if (training_ && batch.part == 0) {
    training_->order.for_each_next_block(
        training_->seed, batch.step, [this](int64_t first, int64_t count) { reader_->expect(first, count); });
  }
  for (int64_t row = 0; row < rows_ && !interrupt.load(std::memory_order_relaxed); ++row) {
    const RowPlace place = place_of(batch, row);
    const bool holds_sample = read(place, batch, row, memory);
    const auto put = [&]<class T>(const std::optional<size_t>& input, T value) {
      if (input) *batch.row<T>(*input, row) = value;
    };
    put(own_.weights, holds_sample ? weight_ : 0.0f);
    put(own_.sample_index, static_cast<int32_t>(training_ ? place.index : place.sample));
    put(own_.sample_numbers, static_cast<int32_t>(place.sample));
    put(own_.sample_epochs, static_cast<int32_t>(place.epoch));
  }
}

/// Whether the row holds a sample; otherwise it is cleared.
bool BatchMaker::read(const RowPlace& place, const Batch& batch, int64_t row, RowMemory& memory) const {
  const bool is_padding = place.sample == RowPlace::kPadding;
  if (own_.are_all) return !is_padding;
  try {
    if (!is_padding) {
      reader_->read(place, batch, row, memory);
      return true;
    }
  } catch (const UnreadableSampleError& error) {
    if (!evaluation_.unreadable) throw;
    evaluation_.unreadable(place.sample, error.sample());
  }
  batch.clear_row(row);
  return false;
}

}  // namespace trainer
