// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/train/batch_feed.h"

namespace trainer {

/// One pass of a network over samples; its output is read batch by batch.
class Prediction {
 public:
  /// Of a program with the entry `predict` and its output `logits`, (N, ...).
  Prediction(Executable& executable, DataPipeline& data);

  /// Runs the next batch; null after the last one, and if `stops` returns true before.
  const Batch* next(const std::function<bool()>& stops = [] { return false; });
  /// Batches not run yet.
  int64_t remaining() const;
  /// Of a row of that batch.
  std::span<const float> output(int64_t row) const;

 private:
  Executable& executable_;
  BatchFeed feed_;
  size_t entry_;
  TensorId tensor_;
  size_t row_elements_;
  std::vector<float> output_;
};

}  // namespace trainer
