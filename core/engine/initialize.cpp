// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numbers>

#include "core/base/rng.h"
#include "core/engine/executable.h"

namespace trainer {
namespace {

/// The four draws that belong to elements 4 * block … 4 * block + 3.
Words draws(uint64_t key, size_t block) {
  return philox(key, {{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0}});
}

std::vector<double> uniform_values(size_t count, uint64_t key, double low, double high) {
  std::vector<double> values(count);
  Words words{};
  for (size_t i = 0; i < count; ++i) {
    if (i % 4 == 0) words = draws(key, i / 4);
    values[i] = static_cast<float>(low + (high - low) * uniform(words.v[i % 4]));
  }
  return values;
}

/// Box and Muller's transform: two uniforms make two normals.
std::vector<double> normal_values(size_t count, uint64_t key, double mean, double deviation) {
  std::vector<double> values(count);
  Words words{};
  for (size_t i = 0; i < count; ++i) {
    if (i % 4 == 0) words = draws(key, i / 4);
    const size_t pair = i % 4 / 2 * 2;
    const double radius = std::sqrt(-2 * std::log(1.0 - uniform(words.v[pair])));
    const double angle = 2 * std::numbers::pi * uniform(words.v[pair + 1]);
    values[i] =
        static_cast<float>(mean + deviation * radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle)));
  }
  return values;
}

}  // namespace

std::vector<double> initial_values(const Tensor& tensor, uint64_t seed) {
  const auto count = static_cast<size_t>(numel(tensor.spec.shape));
  const uint64_t key = random_key(seed, tensor.name);
  const Initial& initial = tensor.initial;
  switch (initial.kind) {
    case Initial::Kind::fill:
      // Every backend begins with the same numbers, however wide it stores them.
      return std::vector<double>(count,
                                 is_floating(tensor.spec.dtype) ? static_cast<float>(initial.a) : initial.a);
    case Initial::Kind::uniform:
      return uniform_values(count, key, initial.a, initial.b);
    case Initial::Kind::normal:
      return normal_values(count, key, initial.a, initial.b);
    case Initial::Kind::table:
      return initial.table;
  }
  return {};
}

void initialize(Executable& executable, uint64_t seed) {
  const std::vector<Tensor>& tensors = executable.plan().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!is_persistent(tensors[i].role)) continue;
    executable.write(static_cast<TensorId>(i), initial_values(tensors[i], seed));
  }
}

}  // namespace trainer
