// SPDX-License-Identifier: Apache-2.0
#include "core/train/synthetic_inputs.h"

#include <stdexcept>
#include <string_view>

#include "core/base/rng.h"
#include "core/graph/names.h"

namespace trainer {
namespace {

int32_t draw_below(RandomStream& random, int64_t bound) {
  return static_cast<int32_t>(random.next_word() % static_cast<uint64_t>(bound));
}

/// Images and numbers within the range that scaling gives; targets of 0 and 1.
float made_up_number(std::string_view name, RandomStream& random, const SyntheticBounds& bounds) {
  if (name == input_name::kImages || name == input_name::kCleanImages || name == input_name::kFeatures)
    return 2 * uniform(random.next_word()) - 1;
  if (name == input_name::kTargets) return static_cast<float>(random.next_word() & 1u);
  if (name == input_name::kMixWeights) return uniform(random.next_word());
  if (name == input_name::kWeights || name == input_name::kTokenWeights) return bounds.weight;
  throw std::logic_error("no made-up numbers for the input " + std::string(name));
}

int32_t made_up_integer(std::string_view name, int64_t place, RandomStream& random,
                        const SyntheticBounds& bounds) {
  if (name == input_name::kTokens) return draw_below(random, bounds.tokens);
  if (name == input_name::kLabels || name == input_name::kOtherLabels)
    return draw_below(random, bounds.classes);
  if (name == input_name::kSampleIndex) return static_cast<int32_t>(place);
  if (name == input_name::kDocumentStart || name == input_name::kCategories) return 0;
  throw std::logic_error("no made-up integers for the input " + std::string(name));
}

void fill(const Tensor& input, std::byte* memory, const SyntheticBounds& bounds) {
  RandomStream random(random_key(0, input.name));
  const int64_t count = numel(input.spec.shape);
  for (int64_t i = 0; i < count; ++i) {
    if (input.spec.dtype == DType::f32) {
      reinterpret_cast<float*>(memory)[i] = made_up_number(input.name, random, bounds);
    } else if (input.spec.dtype == DType::i32) {
      reinterpret_cast<int32_t*>(memory)[i] = made_up_integer(input.name, i, random, bounds);
    } else {
      memory[i] = static_cast<std::byte>(random.next_word() & 0xffu);  // pixels
    }
  }
}

}  // namespace

SyntheticInputs::SyntheticInputs(Executable& executable, const SyntheticBounds& bounds) : feed_(executable) {
  for (const Tensor& tensor : executable.plan().tensors) {
    if (tensor.role != Role::input) continue;
    memory_.push_back(
        executable.device().allocate_batch(numel(tensor.spec.shape) * bytes_per_element(tensor.spec.dtype)));
    fill(tensor, memory_.back().data(), bounds);
    batch_.push_back({executable.tensor(tensor.name), memory_.back().data()});
  }
}

void SyntheticInputs::with_batch(const std::function<void()>& run) {
  feed_.make_room();
  feed_.give(batch_);
  run();
  feed_.done();
}

}  // namespace trainer
