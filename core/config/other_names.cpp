// SPDX-License-Identifier: Apache-2.0
#include "core/config/other_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "core/config/fields.h"

namespace trainer {
namespace {

constexpr auto kOtherNames = std::to_array<OtherName>({
    {"epochs", "training.max_duration", "10ep"},
    {"num_epochs", "training.max_duration", "10ep"},
    {"max_epochs", "training.max_duration", "10ep"},
    {"num_train_epochs", "training.max_duration", "10ep"},
    {"max_steps", "training.max_duration", "500ba"},
    {"batch_size", "training.global_batch_size"},
    {"train_batch_size", "training.global_batch_size"},
    {"per_device_train_batch_size", "training.micro_batch_size"},
    {"gradient_accumulation_steps", "training.micro_batch_size", "8: steps are global_batch_size over it"},
    {"accumulate_grad_batches", "training.micro_batch_size", "8: steps are global_batch_size over it"},
    {"fp16", "training.precision", "amp_fp16"},
    {"bf16", "training.precision", "amp_bf16"},
    {"amp", "training.precision", "amp_bf16"},
    {"mixed_precision", "training.precision", "amp_bf16"},
    {"learning_rate", "optimizer.lr"},
    {"momentum", "optimizer.beta1", "", "optimizer"},
    {"betas", "optimizer.beta1", "0.9, and optimizer.beta2", "optimizer"},
    {"max_grad_norm", "optimizer.clip_norm"},
    {"clip_grad_norm", "optimizer.clip_norm"},
    {"gradient_clip_val", "optimizer.clip_norm"},
    {"criterion", "loss"},
    {"loss_fn", "loss"},
    {"scheduler", "lr_scheduler"},
    {"warmup_ratio", "lr_scheduler.warmup", "500ba"},
    {"warmup_steps", "lr_scheduler.warmup", "500ba"},
    {"warmup_epochs", "lr_scheduler.warmup", "1ep"},
    {"type", "data.format", "", "data"},
    {"num_workers", "data.workers"},
    {"dataset", "data"},
    {"transforms", "data.augment"},
    {"pretrained", "model.initial_weights"},
});

/// Values, in lower case.
constexpr auto kOtherValues = std::to_array<std::pair<const char*, const char*>>({
    {"gpu", "cuda"},
    {"cosine_annealing", "cosine"},
    {"cosineannealing", "cosine"},
    {"cosineannealinglr", "cosine"},
    {"cosineannealingwarmrestarts", "cosine_restarts"},
    {"step", "multi_step"},
    {"steplr", "multi_step"},
    {"multisteplr", "multi_step"},
    {"reduceonplateau", "plateau"},
    {"reducelronplateau", "plateau"},
    {"onecyclelr", "one_cycle"},
    {"ce", "cross_entropy"},
    {"crossentropyloss", "cross_entropy"},
    {"nll", "cross_entropy"},
    {"nllloss", "cross_entropy"},
    {"bce", "binary_cross_entropy"},
    {"bcewithlogitsloss", "binary_cross_entropy"},
    {"l2", "mse"},
    {"mseloss", "mse"},
    {"fp16", "amp_fp16"},
    {"bf16", "amp_bf16"},
    {"float32", "fp32"},
    {"float16", "amp_fp16"},
    {"bfloat16", "amp_bf16"},
    {"16-mixed", "amp_fp16"},
    {"bf16-mixed", "amp_bf16"},
    {"mnist", "idx"},
    {"fashion_mnist", "idx"},
    {"imagefolder", "image_folder"},
    {"imagenet", "image_folder"},
});

}  // namespace

const OtherName* find_other_name(const std::string& key, const std::string& section) {
  const auto found = std::ranges::find_if(kOtherNames, [&](const OtherName& row) {
    return key == row.theirs && (*row.section == '\0' || section == row.section);
  });
  return found == kOtherNames.end() ? nullptr : &*found;
}

std::optional<std::string> meant(const std::string& value, const std::vector<std::string>& candidates) {
  std::string lower = value;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const auto& [theirs, ours] : kOtherValues) {
    if (lower == theirs && std::ranges::find(candidates, ours) != candidates.end()) return ours;
  }
  return nearest(value, candidates);
}

}  // namespace trainer
