// SPDX-License-Identifier: Apache-2.0
#include "core/train/batch_feed.h"

#include <stdexcept>

namespace trainer {
namespace {

/// The array of a batch required by an input (N, row...).
BatchInput batch_input(const Tensor& input) {
  const Shape& shape = input.spec.shape;
  return {.name = input.name, .dtype = input.spec.dtype, .row = {shape.begin() + 1, shape.end()}};
}

BatchInputs batch_inputs(const std::vector<Tensor>& tensors) {
  BatchInputs inputs;
  for (const Tensor& tensor : tensors) {
    if (tensor.role == Role::input) inputs.push_back(batch_input(tensor));
  }
  return inputs;
}

}  // namespace

BatchInputs batch_inputs(const Program& program) {
  return batch_inputs(program.tensors);
}

BatchFeed::BatchFeed(Executable& executable, DataPipeline& pipeline)
    : pipeline_(pipeline), feed_(executable) {
  for (const BatchInput& input : batch_inputs(executable.plan().tensors)) {
    const std::optional<size_t> array = find_input(pipeline.inputs(), input.name);
    if (!array || pipeline.inputs()[*array] != input)
      throw std::logic_error("batches do not hold the program's input " + input.name);
    bindings_.push_back({executable.tensor(input.name), *array});
  }
  inputs_.reserve(bindings_.size());
}

bool BatchFeed::await(const std::function<bool()>& give_up) {
  constexpr std::chrono::milliseconds kPoll{50};
  while (!pipeline_.ready_within(kPoll)) {
    if (give_up()) return false;
  }
  return true;
}

const Batch& BatchFeed::next(std::exception_ptr* failure) {
  feed_.make_room();
  const Batch& batch = pipeline_.next(failure);
  inputs_.clear();
  for (const Binding& binding : bindings_) inputs_.push_back({binding.tensor, batch.array(binding.array)});
  feed_.give(inputs_, true);
  return batch;
}

}  // namespace trainer
