// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/positions.h"

#include <fmt/format.h>

#include <cmath>

namespace trainer {
namespace {

void expect_sequences(const Shape& x) {
  expect(x.size() == 3, "expected sequences (N, T, features), got shape " + to_string(x));
}

bool is_absent_or(const TensorSpec& spec, const Shape& shape) {
  return spec.shape.empty() || spec == TensorSpec{shape, DType::i32};
}

}  // namespace

void expect_positions(const TensorSpec& first, const TensorSpec& start, const Shape& tokens,
                      int64_t positions) {
  expect(tokens[1] <= positions, fmt::format("sequences of {} tokens are longer than the {} positions there "
                                             "are",
                                             tokens[1], positions));
  expect(is_absent_or(first, {1}), "the first position must be one whole number");
  expect(is_absent_or(start, {tokens[0], tokens[1]}), "there must be a start of its document for each token");
}

std::vector<TensorSpec> AddPositions::infer(std::span<const TensorSpec> inputs) const {
  const Shape &x = inputs[position_input::kX].shape, &table = inputs[position_input::kTable].shape;
  expect_sequences(x);
  expect_type(inputs, {position_input::kTable}, DType::f32);
  expect(table.size() == 2 && table[1] == x[2],
         fmt::format("a table of shape {} met {} features", to_string(table), x[2]));
  expect_positions(inputs[position_input::kFirstPosition], inputs[position_input::kStart], x, table[0]);
  return {inputs[position_input::kX]};
}

std::vector<ChannelLink> AddPositions::channel_links(std::span<const TensorSpec>,
                                                     std::span<const TensorSpec> outputs) const {
  std::vector<ChannelLink> links = links_of_elements({position_input::kX}, outputs[kY].shape);
  links.back().places.push_back(channel_in(position_input::kTable, 1));
  return links;
}

std::vector<TensorId> AddPositions::gradient(const Backward& backward) const {
  std::vector<TensorId> gradients(position_input::kInputs, kNone);
  gradients[position_input::kX] = backward.dy[kY];
  if (backward.wanted[position_input::kTable]) {
    gradients[position_input::kTable] = backward.build.emit<AddPositionsBackward>(
        {backward.dy[kY], backward.x(position_input::kFirstPosition), backward.x(position_input::kStart)},
        backward.shape(position_input::kTable)[0]);
  }
  return gradients;
}

std::vector<TensorSpec> AddPositionsBackward::infer(std::span<const TensorSpec> inputs) const {
  const Shape& dy = inputs[kDy].shape;
  expect_sequences(dy);
  expect_positions(inputs[kFirstPosition], inputs[kStart], dy, positions);
  return {{.shape = {positions, dy[2]}, .dtype = DType::f32}};
}

double AddPositionsBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return static_cast<double>(numel(inputs[kDy].shape));
}

std::vector<double> sinusoidal_table(int64_t positions, int64_t features) {
  std::vector<double> table;
  table.reserve(static_cast<size_t>(positions * features));
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t i = 0; i < features; ++i) {
      const int64_t even = i - i % 2;
      const double exponent = static_cast<double>(even) / static_cast<double>(features);
      const double angle = static_cast<double>(p) / std::pow(10000.0, exponent);
      table.push_back(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

}  // namespace trainer
