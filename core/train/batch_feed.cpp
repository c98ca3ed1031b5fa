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
      shares_(executable.tensor("shares")),
      sample_numbers_(executable.tensor("sample_numbers")),
      sample_epochs_(executable.tensor("sample_epochs")) {
  inputs_.reserve(8);
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
  void* images = batch.images != nullptr ? static_cast<void*>(batch.images) : batch.pixels;
  inputs_.assign({{images_, images},
                  {labels_, batch.labels},
                  {weights_, batch.weights},
                  {sample_index_, batch.sample_index},
                  {other_labels_, batch.other_labels},
                  {shares_, batch.shares},
                  {sample_numbers_, batch.sample_numbers},
                  {sample_epochs_, batch.sample_epochs}});
  std::erase_if(inputs_, [](const InputData& input) { return input.input == kNone; });
  feed_.give(inputs_);
}

}  // namespace trainer
