// SPDX-License-Identifier: Apache-2.0
#include "core/run/non_finite_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "core/base/error.h"

namespace trainer {
namespace {

/// Infinite and NaN values have an exponent with all bits set.
template <class Unit>
int64_t count_all_ones(std::span<const std::byte> values, Unit exponent) {
  int64_t count = 0;
  for (size_t at = 0; at + sizeof(Unit) <= values.size(); at += sizeof(Unit)) {
    Unit bits;
    std::memcpy(&bits, values.data() + at, sizeof(Unit));
    count += (bits & exponent) == exponent ? 1 : 0;
  }
  return count;
}

int64_t count_non_finite(DType dtype, std::span<const std::byte> values) {
  switch (dtype) {
    case DType::f32:
      return count_all_ones<uint32_t>(values, 0x7f800000U);
    case DType::f16:
      return count_all_ones<uint16_t>(values, 0x7c00U);
    case DType::bf16:
      return count_all_ones<uint16_t>(values, 0x7f80U);
    case DType::i32:
    case DType::u8:
    case DType::i8:
      return 0;
  }
  return 0;
}

}  // namespace

void NonFiniteWeights::count(const std::string& name, DType dtype, std::span<const std::byte> values) {
  if (tensors_.empty() || tensors_.back().name != name) {
    if (!tensors_.empty() && tensors_.back().non_finite == 0) tensors_.pop_back();
    tensors_.push_back({.name = name});
  }
  tensors_.back().values += static_cast<int64_t>(values.size()) / bytes_per_element(dtype);
  tensors_.back().non_finite += count_non_finite(dtype, values);
}

/// "'conv1.weight' (270 of 288 values) and 3 more tensors"; "" if all values are finite.
std::string NonFiniteWeights::text() const {
  std::vector<Found> bad;
  std::ranges::copy_if(tensors_, std::back_inserter(bad),
                       [](const Found& each) { return each.non_finite > 0; });
  if (bad.empty()) return "";
  std::string text = fmt::format("'{}' ({} of {} values)", bad[0].name, bad[0].non_finite, bad[0].values);
  if (bad.size() > 1) text += fmt::format(" and {} more tensor{}", bad.size() - 1, bad.size() > 2 ? "s" : "");
  return text;
}

void NonFiniteWeights::refuse_to_save(const std::string& file) const {
  const std::string found = text();
  if (found.empty()) return;
  throw Error(
      ExitCode::internal,
      fmt::format("weights are infinite or NaN: {}; {} was not written and earlier checkpoints remain; lower "
                  "optimizer.lr, lengthen lr_scheduler.warmup or set optimizer.clip_norm",
                  found, file));
}

}  // namespace trainer
