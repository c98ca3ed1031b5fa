// SPDX-License-Identifier: Apache-2.0
#include "core/data/batch.h"

#include <algorithm>
#include <cstring>

namespace trainer {
namespace {

constexpr int64_t kAlignment = 64;  // a cache line, and the widest vector

int64_t row_bytes(const BatchInput& input) {
  return numel(input.row) * bytes_per_element(input.dtype);
}

int64_t array_bytes(const BatchInput& input, int64_t rows) {
  Shape bytes = input.row;
  bytes.insert(bytes.end(), {rows, bytes_per_element(input.dtype)});
  return (numel(bytes) + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::optional<size_t> find_input(const BatchInputs& inputs, std::string_view name) {
  const auto found = std::ranges::find(inputs, name, &BatchInput::name);
  if (found == inputs.end()) return std::nullopt;
  return static_cast<size_t>(found - inputs.begin());
}

int64_t batch_bytes(const BatchInputs& inputs, int64_t rows) {
  int64_t sum = 0;
  for (const BatchInput& input : inputs) sum += array_bytes(input, rows);
  return sum;
}

Batch::Batch(std::byte* memory, const BatchInputs& inputs, int64_t rows) : inputs_(&inputs) {
  for (const BatchInput& input : inputs) {
    arrays_.push_back(memory);
    row_bytes_.push_back(row_bytes(input));
    memory += array_bytes(input, rows);
  }
}

void Batch::clear_row(int64_t row) const {
  for (size_t i = 0; i < arrays_.size(); ++i)
    std::memset(arrays_[i] + row * row_bytes_[i], 0, static_cast<size_t>(row_bytes_[i]));
}

}  // namespace trainer
