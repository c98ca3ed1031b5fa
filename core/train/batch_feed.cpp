// SPDX-License-Identifier: Apache-2.0
#include "core/train/batch_feed.h"

namespace trainer {

BatchFeed::BatchFeed(Executable& executable, DataPipeline& pipeline)
    : pipeline_(pipeline),
      feed_(executable),
      images_(executable.tensor("images")),
      labels_(executable.tensor("labels")),
      weights_(executable.tensor("weights")),
      sample_index_(executable.tensor("sample_index")),
      other_labels_(executable.tensor("other_labels")),
      shares_(executable.tensor("shares")) {
  inputs_.reserve(6);
}

bool BatchFeed::await(const std::function<bool()>& give_up) {
  constexpr std::chrono::milliseconds kPoll{50};
  while (!pipeline_.ready_within(kPoll)) {
    if (give_up()) return false;
  }
  return true;
}

void BatchFeed::next() {
  feed_.make_room();
  const Batch& batch = pipeline_.next();
  inputs_.assign({{images_, batch.images != nullptr ? static_cast<void*>(batch.images) : batch.pixels},
                  {labels_, batch.labels},
                  {weights_, batch.weights},
                  {sample_index_, batch.sample_index}});
  if (other_labels_ != kNone) {
    inputs_.push_back({other_labels_, batch.other_labels});
    inputs_.push_back({shares_, batch.shares});
  }
  feed_.give(inputs_);
}

}  // namespace trainer
