// SPDX-License-Identifier: Apache-2.0
#include "core/train/batch_feed.h"

#include "core/graph/names.h"

namespace trainer {

BatchFeed::BatchFeed(Executable& executable, DataPipeline& pipeline)
    : pipeline_(pipeline),
      feed_(executable),
      images_(executable.tensor(input_name::kImages)),
      labels_(executable.tensor(input_name::kLabels)),
      weights_(executable.tensor(input_name::kWeights)),
      sample_index_(executable.tensor(input_name::kSampleIndex)),
      other_labels_(executable.tensor(input_name::kOtherLabels)),
      shares_(executable.tensor(input_name::kMixWeights)),
      sample_numbers_(executable.tensor(input_name::kSampleNumbers)),
      sample_epochs_(executable.tensor(input_name::kSampleEpochs)) {
  inputs_.reserve(8);
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
  auto give = [&](TensorId input, void* data) {
    if (input != kNone) inputs_.push_back({input, data});
  };
  give(images_, batch.images != nullptr ? static_cast<void*>(batch.images) : batch.pixels);
  give(labels_, batch.labels);
  give(weights_, batch.weights);
  give(sample_index_, batch.sample_index);
  give(other_labels_, batch.other_labels);
  give(shares_, batch.shares);
  give(sample_numbers_, batch.sample_numbers);
  give(sample_epochs_, batch.sample_epochs);
  feed_.give(inputs_);
  return batch;
}

}  // namespace trainer
