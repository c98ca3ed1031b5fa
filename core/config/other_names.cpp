// SPDX-License-Identifier: Apache-2.0
#include "core/config/other_names.h"

#include <algorithm>
#include <array>

namespace trainer {
namespace {

constexpr std::array<OtherName, 14> kOtherNames = {{
    {"epochs", "training.max_duration", "10ep"},
    {"num_epochs", "training.max_duration", "10ep"},
    {"max_epochs", "training.max_duration", "10ep"},
    {"max_steps", "training.max_duration", "500ba"},
    {"batch_size", "training.global_batch_size"},
    {"train_batch_size", "training.global_batch_size"},
    {"learning_rate", "optimizer.lr"},
    {"criterion", "loss"},
    {"loss_fn", "loss"},
    {"scheduler", "lr_scheduler"},
    {"num_workers", "data.workers"},
    {"dataset", "data"},
    {"transforms", "data.augment"},
    {"pretrained", "model.initial_weights"},
}};

}  // namespace

const OtherName* find_other_name(const std::string& key) {
  const auto found =
      std::ranges::find_if(kOtherNames, [&](const OtherName& row) { return key == row.theirs; });
  return found == kOtherNames.end() ? nullptr : &*found;
}

}  // namespace trainer
