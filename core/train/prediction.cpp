// SPDX-License-Identifier: Apache-2.0
#include "core/train/prediction.h"

#include <stdexcept>

#include "core/graph/names.h"

namespace trainer {
namespace {

TensorId output_of(const PlannedEntry& entry) {
  for (const NamedTensor& output : entry.outputs) {
    if (output.name == output_name::kLogits) return output.tensor;
  }
  throw std::logic_error("the program has no logits");
}

size_t row_elements(const Shape& shape) {
  return static_cast<size_t>(numel(shape) / shape[0]);
}

}  // namespace

Prediction::Prediction(Executable& executable, DataPipeline& data)
    : executable_(executable),
      feed_(executable, data),
      entry_(executable.entry(entry_name::kPredict)),
      tensor_(output_of(executable.plan().entries[entry_])),
      row_elements_(row_elements(executable.plan().tensors[static_cast<size_t>(tensor_)].spec.shape)) {}

const Batch* Prediction::next(const std::function<bool()>& stops) {
  if (remaining() == 0 || stops() || !feed_.await(stops)) return nullptr;
  const Batch& batch = feed_.next();
  executable_.run(entry_);
  feed_.done();
  output_ = executable_.read(tensor_);
  return &batch;
}

int64_t Prediction::remaining() const {
  return feed_.pipeline().remaining();
}

std::span<const float> Prediction::output(int64_t row) const {
  return {output_.data() + static_cast<size_t>(row) * row_elements_, row_elements_};
}

}  // namespace trainer
