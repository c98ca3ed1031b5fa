// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "core/data/pipeline.h"
#include "core/engine/input_feed.h"

namespace trainer {

/// The arrays that batches must have: the inputs of a program.
BatchInputs batch_inputs(const Program& program);

/// Binds a pipeline's batches, one at a time, to the inputs of an executable.
class BatchFeed {
 public:
  /// Batches may hold more than the program's inputs but never less, each in the program's type and shape.
  BatchFeed(Executable& executable, DataPipeline& pipeline);

  /// Waits for the next batch; false if `give_up` returns true first. It is called several times a second.
  bool await(const std::function<bool()>& give_up);
  /// Waits until the device has room for the next batch.
  void make_room() { feed_.make_room(); }
  /// Binds the next batch to the program's inputs, once there is room. Errors in making it are
  /// thrown, or put into `failure`.
  const Batch& next(std::exception_ptr* failure = nullptr);
  /// After the last run that reads it.
  void done() { feed_.done(); }

  DataPipeline& pipeline() const { return pipeline_; }

 private:
  DataPipeline& pipeline_;
  InputFeed feed_;
  /// An input of the program, and the array of a batch for it.
  struct Binding {
    TensorId tensor;
    size_t array;
  };
  std::vector<Binding> bindings_;
  std::vector<InputData> inputs_;
};

}  // namespace trainer
