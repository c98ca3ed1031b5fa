// SPDX-License-Identifier: Apache-2.0
#include "core/train/prediction.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace trainer {
namespace {

TensorId logits_of(const PlannedEntry& entry) {
  for (const NamedTensor& output : entry.outputs) {
    if (output.name == "logits") return output.tensor;
  }
  throw std::logic_error("the program has no logits");
}

}  // namespace

Prediction::Prediction(Executable& executable, DataPipeline& data)
    : executable_(executable),
      feed_(executable, data),
      entry_(executable.entry("predict")),
      output_(logits_of(executable.plan().entries[entry_])),
      classes_(static_cast<size_t>(executable.plan().tensors[static_cast<size_t>(output_)].spec.shape[1])) {}

const Batch* Prediction::next() {
  if (feed_.pipeline().remaining() == 0) return nullptr;
  const Batch& batch = feed_.next();
  executable_.run(entry_);
  feed_.done();
  logits_ = executable_.read(output_);
  return &batch;
}

std::span<const float> Prediction::logits(int64_t row) const {
  return {logits_.data() + static_cast<size_t>(row) * classes_, classes_};
}

std::vector<double> probabilities(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  std::vector<double> values;
  for (float logit : logits) values.push_back(std::exp(static_cast<double>(logit) - most));
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  for (double& value : values) value /= sum;
  return values;
}

std::vector<size_t> largest(std::span<const float> logits, size_t count) {
  std::vector<size_t> classes(logits.size());
  std::iota(classes.begin(), classes.end(), size_t{0});
  const auto end = classes.begin() + static_cast<std::ptrdiff_t>(std::min(count, classes.size()));
  std::partial_sort(classes.begin(), end, classes.end(), [&](size_t a, size_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  classes.erase(end, classes.end());
  return classes;
}

}  // namespace trainer
