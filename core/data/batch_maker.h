// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "core/data/row_reader.h"
#include "core/data/source.h"

namespace trainer {

/// Called with the number of a sample that cannot be read, from any of the threads that make batches.
using UnreadableHandler = std::function<void(int64_t index, const UnreadableSample& sample)>;

/// One pass in the stored order; the last batch is padded with rows of zeros, and so are whole batches if
/// a rank would have fewer than another. With a handler, unreadable
/// samples become such rows too; without one they end the pass.
struct EvaluationBatches {
  int64_t samples;
  int64_t batch;
  UnreadableHandler unreadable = nullptr;
  RankShare share = {};
  int64_t first = 0;  ///< number of the first sample in its source
};

/// Makes the micro-batch of a number, as a pure function of that number. It numbers and weighs the rows
/// itself: a weight is 1 / global batch in training; in evaluation 1, and 0 if a row holds no sample. The
/// index of a row is that in the global batch in training; in evaluation the sample's number, whatever the
/// batches, and RowPlace::kPadding if there is none. A RowReader fills the rest.
class BatchMaker {
 public:
  /// Throws Error (exit 78) if the micro-batches of the ranks do not divide the global batch.
  BatchMaker(std::unique_ptr<RowReader> reader, BatchInputs inputs, const TrainingBatches& training);
  BatchMaker(std::unique_ptr<RowReader> reader, BatchInputs inputs, const EvaluationBatches& evaluation);

  const RowReader& reader() const { return *reader_; }
  const BatchInputs& inputs() const { return inputs_; }
  int64_t rows() const { return rows_; }
  int64_t first() const { return first_; }  ///< number of the first micro-batch
  int64_t end() const { return end_; }      ///< one past the last of this rank; training has none

  /// Gives up between samples once `interrupt` is set; the batch is then worthless.
  void make(int64_t number, Batch& batch, RowMemory& memory, const std::atomic<bool>& interrupt) const;

 private:
  /// Positions of the inputs that this fills itself, as far as the program has them.
  struct OwnInputs {
    explicit OwnInputs(const BatchInputs& inputs);
    std::optional<size_t> weights, sample_index, sample_numbers, sample_epochs;
    bool are_all = false;  ///< no sample is read: the device has them all
  };

  BatchMaker(std::unique_ptr<RowReader> reader, BatchInputs inputs, int64_t rows);
  void begin(int64_t number, Batch& batch) const;
  int64_t index_in_step(int64_t row) const;
  RowPlace place_of(const Batch& batch, int64_t row) const;
  bool read(const RowPlace& place, const Batch& batch, int64_t row, RowMemory& memory) const;

  std::unique_ptr<RowReader> reader_;
  BatchInputs inputs_;
  OwnInputs own_;
  int64_t rows_, first_ = 0, end_ = 0;
  float weight_ = 1;       ///< of a row that holds a sample
  int64_t parts_ = 1;      ///< training: micro-batches of this rank in a step
  int64_t first_row_ = 0;  ///< training: of this rank within the global batch
  std::optional<TrainingBatches> training_;
  EvaluationBatches evaluation_{};
};

}  // namespace trainer
