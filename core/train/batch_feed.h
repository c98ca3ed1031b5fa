// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "core/data/pipeline.h"
#include "core/engine/input_feed.h"

namespace trainer {

/// A pipeline's batches, bound one after the other to the inputs of an executable.
class BatchFeed {
 public:
  BatchFeed(Executable& executable, DataPipeline& pipeline);

  /// Waits for the next batch; false where `give_up` says so first. Asked several times a second.
  bool await(const std::function<bool()>& give_up);
  /// Binds the next batch to those inputs that the program has. What goes wrong in making it is thrown, or
  /// put into `failure`.
  const Batch& next(std::exception_ptr* failure = nullptr);
  /// After the last run that reads it.
  void done() { feed_.done(); }

  DataPipeline& pipeline() { return pipeline_; }

 private:
  DataPipeline& pipeline_;
  InputFeed feed_;
  TensorId images_, labels_, weights_, sample_index_, other_labels_, shares_, sample_numbers_,
      sample_epochs_;  ///< or kNone
  std::vector<InputData> inputs_;
};

}  // namespace trainer
