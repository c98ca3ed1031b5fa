// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "core/base/shape.h"
#include "core/data/images/mix.h"
#include "core/data/images/transform.h"
#include "core/data/order.h"
#include "core/data/source.h"

namespace trainer {

/// What a batch says of its samples: f32 numbers; the bytes that transforms leave, which a device scales
/// itself; or only which samples they are, where a device has them and transforms them, and no labels.
enum class Content { numbers, bytes, samples };

/// Which arrays a batch has.
struct BatchForm {
  Labels labels = Labels::per_picture;
  Content content = Content::numbers;
};

/// A micro-batch of N rows in one piece of memory, each array aligned to 64 bytes.
struct Batch {
  float* images = nullptr;            ///< (N, C, H, W), with Content::numbers
  uint8_t* pixels = nullptr;          ///< (N, C, H, W), with Content::bytes
  int32_t* sample_numbers = nullptr;  ///< (N) of the split, with Content::samples; -1: padding
  int32_t* sample_epochs = nullptr;   ///< (N) with Content::samples
  int32_t* labels = nullptr;          ///< (N), or (N, H, W) with labels for every pixel
  float* weights = nullptr;           ///< (N) training: 1 / global batch size; evaluation: 1, padding 0
  int32_t* sample_index = nullptr;    ///< (N) number of each sample within its global batch
  int32_t* other_labels = nullptr;    ///< (N) of the samples mixed in; without mixing as labels
  float* shares = nullptr;            ///< (N) of `labels` against `other_labels`: from 0.5 to 1
  int64_t step = 0;                   ///< evaluation: number of the batch
  int64_t first = 0;                  ///< number of the first row within the global batch
  int64_t epoch = 0;                  ///< of the first row
  int64_t real = 0;                   ///< rows that are not padding; they come first
};

/// Bytes of a batch of `rows` samples of shape (C, H, W).
int64_t batch_bytes(const Shape& sample, int64_t rows, const BatchForm& form = {});
/// A batch over memory of that size.
Batch place_batch(std::byte* memory, const Shape& sample, int64_t rows, const BatchForm& form = {});

/// Batches in the shuffled order, augmented. Each step is global_batch / micro_batch micro-batches.
struct TrainingBatches {
  uint64_t seed;  ///< of the run
  TrainingOrder order;
  int64_t micro_batch;
  int64_t first_step = 0;
  Mix mix = {};  ///< only with labels per picture
};

/// Told the number of a sample that cannot be read, by any of the threads that make batches.
using UnreadableHandler = std::function<void(int64_t index, const UnreadableSample& sample)>;

/// One pass in the stored order; the last batch is padded with zeros of weight 0. Where there is somebody to
/// tell, samples that cannot be read become such rows too; otherwise they end the pass.
struct EvaluationBatches {
  int64_t batch;
  UnreadableHandler unreadable = nullptr;
};

/// Makes the micro-batch of a number, as a pure function of that number. Source and transforms must outlive
/// it.
class BatchMaker {
 public:
  /// Throws Error (exit 78) where the micro-batch does not divide the global batch. Mixup makes numbers,
  /// never bytes.
  BatchMaker(const DataSource& source, TransformChain chain, const TrainingBatches& training,
             const BatchForm& form = {});
  BatchMaker(const DataSource& source, TransformChain chain, const EvaluationBatches& evaluation,
             const BatchForm& form = {});

  int64_t rows() const { return rows_; }
  int64_t first() const { return first_; }  ///< number of the first micro-batch
  int64_t end() const { return end_; }      ///< one past the last; training has none
  const TransformChain& chain() const { return chain_; }
  const BatchForm& form() const { return form_; }

  /// Gives up between samples once `interrupt` is set; the batch is then worthless.
  void make(int64_t number, Batch& batch, Image& image, const std::atomic<bool>& interrupt) const;

 private:
  int64_t training_sample(int64_t step, int64_t i, int64_t& epoch) const;
  void load_training_sample(int64_t step, int64_t i, Image& image) const;
  void make_training_row(Batch& batch, int64_t row, Image& image) const;
  void mix_row(Batch& batch, int64_t row, Image& image) const;
  void make_evaluation_row(Batch& batch, int64_t row, Image& image) const;
  void name_sample(Batch& batch, int64_t row) const;
  void write_image(Batch& batch, int64_t row, const Image& image) const;
  void make_empty_row(Batch& batch, int64_t row) const;
  void write_label(Batch& batch, int64_t row, const Image& image) const;

  const DataSource* source_;
  TransformChain chain_;
  std::optional<TrainingBatches> training_;
  uint64_t augment_key_ = 0;
  int64_t rows_, row_elements_;
  int64_t first_ = 0, end_;
  BatchForm form_;
  UnreadableHandler unreadable_;
  std::optional<MixingDraw> mixing_;
};

}  // namespace trainer
