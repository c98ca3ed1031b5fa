// SPDX-License-Identifier: Apache-2.0
#include "core/pruning/cut_tensors.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace trainer {

AlongDimension::AlongDimension(const Shape& shape, size_t dimension)
    : size(shape[dimension]),
      inner(std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(dimension) + 1, shape.end(),
                            int64_t{1}, std::multiplies<>())) {}

Shape cut_shape(const Program& program, const CoupledChannels& channels, const RemovedChannels& removed,
                TensorId tensor) {
  Shape shape = program.spec(tensor).shape;
  const auto& dimensions = channels.of[static_cast<size_t>(tensor)];
  for (size_t d = 0; d < dimensions.size(); ++d)
    shape[d] = std::ranges::count_if(dimensions[d], [&](size_t channel) { return !removed[channel]; });
  return shape;
}

std::vector<float> cut_values(const Program& program, const CoupledChannels& channels,
                              const RemovedChannels& removed, TensorId tensor, std::vector<float> values) {
  Shape shape = program.spec(tensor).shape;
  const Shape after = cut_shape(program, channels, removed, tensor);
  const auto& dimensions = channels.of[static_cast<size_t>(tensor)];
  for (size_t d = 0; d < dimensions.size(); ++d) {
    if (shape[d] == after[d]) continue;
    const AlongDimension along(shape, d);
    std::vector<float> kept;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!removed[dimensions[d][along.position(i)]]) kept.push_back(values[i]);
    }
    values = std::move(kept);
    shape[d] = after[d];
  }
  return values;
}

}  // namespace trainer
