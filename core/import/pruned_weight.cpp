// SPDX-License-Identifier: Apache-2.0
#include "core/import/pruned_weight.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "core/storage/stored_type.h"

namespace trainer {
namespace {

constexpr std::string_view kOriginal = "_orig", kMask = "_mask";

/// The bytes of the number 1, which begin with the lowest.
uint64_t one_in(std::string_view type) {
  if (type == "F64") return std::bit_cast<uint64_t>(1.0);
  if (type == "F32") return std::bit_cast<uint32_t>(1.0F);
  if (type == "F16") return 0x3c00;
  if (type == "BF16") return 0x3f80;
  return 1;
}

uint64_t element(std::span<const std::byte> bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data(), bytes.size());
  return bits;
}

}  // namespace

std::vector<std::string> join_masks(std::vector<TorchTensor>& tensors) {
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < tensors.size(); ++i) places[tensors[i].stored.name] = i;
  std::vector<std::string> misshapen;
  std::vector<bool> is_mask(tensors.size(), false);
  for (TorchTensor& tensor : tensors) {
    if (!tensor.stored.name.ends_with(kOriginal)) continue;
    const std::string name = tensor.stored.name.substr(0, tensor.stored.name.size() - kOriginal.size());
    const auto found = places.find(name + std::string(kMask));
    if (found == places.end() || places.contains(name)) continue;
    const TorchTensor& mask = tensors[found->second];
    if (mask.stored.shape != tensor.stored.shape) misshapen.push_back(mask.stored.name);
    is_mask[found->second] = true;
    tensor.mask = std::make_shared<const TorchTensor>(mask);
    tensor.stored.name = name;
  }
  std::vector<TorchTensor> left;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!is_mask[i]) left.push_back(std::move(tensors[i]));
  }
  tensors = std::move(left);
  return misshapen;
}

bool apply_mask(std::span<std::byte> weight, std::string_view type, std::span<const std::byte> mask,
                std::string_view type_of_mask) {
  const auto width = static_cast<size_t>(element_bytes(type)),
             mask_width = static_cast<size_t>(element_bytes(type_of_mask));
  const uint64_t one = one_in(type_of_mask);
  const size_t count = mask.size() / mask_width;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t kept = element(mask.subspan(i * mask_width, mask_width));
    if (kept != 0 && kept != one) return false;
  }
  for (size_t i = 0; i < count; ++i) {
    if (element(mask.subspan(i * mask_width, mask_width)) == 0)
      std::ranges::fill(weight.subspan(i * width, width), std::byte{0});
  }
  return true;
}

}  // namespace trainer
