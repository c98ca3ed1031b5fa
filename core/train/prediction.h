// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "core/train/batch_feed.h"

namespace trainer {

/// One pass of a network over samples, whose output is read batch by batch.
class Prediction {
 public:
  /// Of a program with the entry `predict` and its output `logits`, (N, classes).
  Prediction(Executable& executable, DataPipeline& data);

  /// Runs the next batch; null after the last one.
  const Batch* next();
  /// Of a row of that batch.
  std::span<const float> logits(int64_t row) const;

 private:
  Executable& executable_;
  BatchFeed feed_;
  size_t entry_;
  TensorId output_;
  size_t classes_;
  std::vector<float> logits_;
};

/// softmax(logits), in double.
std::vector<double> probabilities(std::span<const float> logits);
/// The classes of the `count` largest logits, the largest first; among equal ones the lower class.
std::vector<size_t> largest(std::span<const float> logits, size_t count);

}  // namespace trainer
