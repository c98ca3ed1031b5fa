// SPDX-License-Identifier: Apache-2.0
#include "core/train/mask_updates.h"

#include <algorithm>
#include <string>

#include "core/graph/names.h"
#include "core/pruning/masks.h"

namespace trainer {

MaskUpdates::MaskUpdates(Executable& executable, const PruningSettings& settings,
                         const std::vector<PrunedWeight>& weights)
    : executable_(executable), settings_(settings) {
  for (const PrunedWeight& weight : weights) {
    const TensorId id = executable.tensor(weight.name);
    const Shape& shape = executable.plan().tensors[static_cast<size_t>(id)].spec.shape;
    tensors_.push_back({.weights = id,
                        .mask = executable.tensor(weight.name + state_suffix::kMask),
                        .average = executable.tensor(weight.name + state_suffix::kAverage),
                        .shape = shape,
                        .dimension = weight.dimension});
    elements_ += numel(shape);
  }
}

int64_t MaskUpdates::host_bytes(const Plan& plan, const std::vector<PrunedWeight>& weights) {
  constexpr int64_t kOfElement = 2 * sizeof(float) + 3 * sizeof(uint8_t);  // two orders; the mask before, too
  int64_t largest = 0;
  for (const Tensor& tensor : plan.tensors) {
    if (std::ranges::find(weights, tensor.name, &PrunedWeight::name) != weights.end())
      largest = std::max(largest, numel(tensor.spec.shape));
  }
  return largest * kOfElement;
}

double MaskUpdates::update(int64_t step) {
  taken_ = 0;
  const double share = settings_.share_after(step);
  if (share == 0) return 0;
  if (settings_.two_of_four) {
    for (const Pruned& tensor : tensors_) {
      change(tensor, [](const Pruned& each, std::span<float> weights, std::span<uint8_t> mask) {
        mask_two_of_four(weights, mask, each.shape, each.dimension);
      });
    }
  } else if (settings_.is_global) {
    take_least(tensors_, pruned_count(share, elements_));
  } else {
    for (const Pruned& tensor : tensors_)
      take_least(std::span(&tensor, 1), pruned_count(share, numel(tensor.shape)));
  }
  return static_cast<double>(taken_) / static_cast<double>(elements_);
}

/// Of these tensors together.
void MaskUpdates::take_least(std::span<const Pruned> tensors, int64_t count) {
  LeastWeights least(count);
  for (const Pruned& tensor : tensors)
    least.look(executable_.read(tensor.weights), executable_.read<uint8_t>(tensor.mask));
  least.narrow();
  for (const Pruned& tensor : tensors) least.look_again(executable_.read(tensor.weights));
  least.decide();
  for (const Pruned& tensor : tensors) {
    change(tensor, [&](const Pruned&, std::span<float> weights, std::span<uint8_t> mask) {
      least.mask(weights, mask);
    });
  }
}

/// The device's tensors stay as they are where nothing changes.
void MaskUpdates::change(const Pruned& tensor, const Change& change) {
  std::vector<uint8_t> mask = executable_.read<uint8_t>(tensor.mask);
  const std::vector<uint8_t> before = mask;
  {
    std::vector<float> weights = executable_.read(tensor.weights);
    change(tensor, weights, mask);
    if (mask != before) executable_.write(tensor.weights, weights);
  }
  taken_ += std::ranges::count(mask, uint8_t{0});
  if (mask == before) return;
  executable_.write(tensor.mask, mask);
  if (tensor.average == kNone) return;
  std::vector<float> average = executable_.read(tensor.average);
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) average[i] = 0;
  }
  executable_.write(tensor.average, average);
}

}  // namespace trainer
