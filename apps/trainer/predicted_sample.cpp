// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/predicted_sample.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/data/images/transform.h"
#include "core/data/tables/source.h"
#include "core/graph/names.h"

namespace trainer {

void Unreadable::add(int64_t index, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  reasons_[index] = reason;
}

std::string Unreadable::take(int64_t index) {
  const std::lock_guard lock(mutex_);
  const auto found = reasons_.find(index);
  if (found == reasons_.end()) return "";
  std::string reason = std::move(found->second);
  reasons_.erase(found);
  ++count_;
  return reason;
}

SampleReader::SampleReader(const Job& job, const PredictSamples& samples, const PredictionRequest& request,
                           Unreadable& unreadable)
    : task_(task_of(job.spec)),
      samples_(samples),
      request_(request),
      unreadable_(unreadable),
      shape_(job.spec.recipe().model.input),
      rows_(job.spec.batch().micro_batch),
      input_(static_cast<size_t>(numel(shape_))) {
  table_ = dynamic_cast<const TableSource*>(samples.source.get());
  if (job.spec.recipe().model.kind() != InputKind::pixels) return;
  PixelMap map = pixel_map(job.spec.recipe().data.images.eval_transform, shape_[0]);
  numbers_ = {.scale = std::move(map.scale), .offset = std::move(map.offset)};
  request_.input = input_;
  const BatchInputs inputs = batch_contents(job.spec, job.program);
  is_bytes_ = inputs[find_input(inputs, input_name::kImages).value()].dtype == DType::u8;
}

PredictedSample SampleReader::read(const Batch& batch, int64_t row, std::span<const float> output) {
  const int64_t index = samples_.part.first + batch.step * rows_ + row;
  PredictedSample sample{.number = samples_.answered + index, .has_label_set = task_.has_label_sets()};
  sample.file = samples_.source->sample_file(index);
  sample.error = unreadable_.take(index);
  if (!sample.error.empty()) return sample;
  if (samples_.has_labels()) sample.labels = labels_in(batch, row, index);
  if (!std::ranges::all_of(output, [](float x) { return std::isfinite(x); })) {
    sample.error = "the network's output is not finite";
    ++not_finite_;
    return sample;
  }
  if (!numbers_.scale.empty()) read_input(batch, row);
  sample.fields = task_.predict(output, request_);
  if (table_ != nullptr) {
    auto at = sample.fields.begin();
    for (auto& [name, text] : table_->names(index))
      at = sample.fields.insert(at, {std::move(name), std::move(text)}) + 1;
  }
  if (sample.labels) sample.judgement = task_.judge(output, *sample.labels);
  return sample;
}

std::vector<int64_t> SampleReader::labels_in(const Batch& batch, int64_t row, int64_t number) const {
  if (!samples_.folder_labels.empty()) return {samples_.folder_labels[static_cast<size_t>(number)]};
  if (const auto* labels = batch.find<int32_t>(input_name::kLabels)) return {labels[row]};
  const auto classes = static_cast<size_t>(request_.output[0]);
  const float* targets = batch.find<float>(input_name::kTargets) + static_cast<size_t>(row) * classes;
  std::vector<int64_t> set;
  for (size_t c = 0; c < classes; ++c) {
    if (targets[c] > 0) set.push_back(static_cast<int64_t>(c));
  }
  return set;
}

void SampleReader::read_input(const Batch& batch, int64_t row) {
  const size_t begin = static_cast<size_t>(row) * input_.size(),
               plane = input_.size() / numbers_.scale.size();
  // A device may get bytes, and turn them into numbers itself.
  if (is_bytes_) {
    const auto* bytes = batch.find<uint8_t>(input_name::kImages) + begin;
    for (size_t i = 0; i < input_.size(); ++i)
      input_[i] = numbers_.scale[i / plane] * static_cast<float>(bytes[i]) + numbers_.offset[i / plane];
  } else {
    std::copy_n(batch.find<float>(input_name::kImages) + begin, input_.size(), input_.begin());
  }
}

PredictedImage SampleReader::input_image() const {
  PredictedImage image{shape_, std::vector<uint8_t>(input_.size())};
  const size_t plane = input_.size() / numbers_.scale.size();
  for (size_t i = 0; i < input_.size(); ++i) {
    const float byte = (input_[i] - numbers_.offset[i / plane]) / numbers_.scale[i / plane];
    image.pixels[i] = static_cast<uint8_t>(std::lround(std::clamp(byte, 0.0f, 255.0f)));
  }
  return image;
}

}  // namespace trainer
