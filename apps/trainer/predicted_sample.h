// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/trainer/predict_samples.h"
#include "core/data/batch.h"
#include "core/recipe/job.h"
#include "core/tasks/task.h"

namespace trainer {

class TableSource;

/// A sample with what the network says about it.
struct PredictedSample {
  int64_t number = 0;  ///< from 0 on
  std::string file;    ///< empty if it has none of its own
  bool has_label_set = false;
  std::optional<std::vector<int64_t>> labels;
  std::string error;                   ///< why there is no prediction, or empty
  std::vector<PredictedField> fields;  ///< the prediction, and the files that --images wrote
  std::optional<Judgement> judgement;  ///< if there are labels

  bool is_wrong() const { return judgement && !judgement->is_right; }
};

/// Samples that cannot be read. Filled while batches are made.
class Unreadable {
 public:
  void add(int64_t index, const std::string& reason);
  /// The reason for a sample, or "". It is forgotten, as there may be millions.
  std::string take(int64_t index);
  int64_t count() const { return count_; }  ///< of those taken

 private:
  std::mutex mutex_;
  std::map<int64_t, std::string> reasons_;
  int64_t count_ = 0;
};

/// Turns the rows of batches into predicted samples.
class SampleReader {
 public:
  SampleReader(const Job& job, const PredictSamples& samples, const PredictionRequest& request,
               Unreadable& unreadable);

  /// The sample of a row, from the network's output for it.
  PredictedSample read(const Batch& batch, int64_t row, std::span<const float> output);
  /// That sample as the network read it: its numbers, and as bytes.
  std::span<const float> input() const { return input_; }
  PredictedImage input_image() const;
  /// The network's numbers of bytes.
  const PixelNumbers& numbers() const { return numbers_; }
  int64_t not_finite() const { return not_finite_; }

 private:
  std::vector<int64_t> labels_in(const Batch& batch, int64_t row, int64_t number) const;
  void read_input(const Batch& batch, int64_t row);

  const Task& task_;
  const PredictSamples& samples_;
  PredictionRequest request_;
  Unreadable& unreadable_;
  Shape shape_;  ///< of the network's input
  int64_t rows_;
  PixelNumbers numbers_;
  std::vector<float> input_;
  const TableSource* table_ = nullptr;  ///< if the samples are rows of a table
  bool is_bytes_ = false;               ///< what the batches hold
  int64_t not_finite_ = 0;
};

}  // namespace trainer
