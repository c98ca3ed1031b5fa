// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/rotary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainer {

void RotarySettings::describe(AttributeVisitor& visit) const {
  visit("heads", heads);
  visit("size", size);
  visit("features", features);
  visit("interleaved", interleaved);
  visit("inverse", inverse);
}

std::vector<TensorSpec> Rotary::infer(std::span<const TensorSpec> inputs) const {
  const Shape &x = inputs[position_input::kX].shape, &table = inputs[position_input::kTable].shape;
  expect(x.size() == 3, "expected sequences (N, T, features), got shape " + to_string(x));
  expect(settings.features % 2 == 0 && settings.features <= settings.size,
         fmt::format("an even number of the {} features of a head can be turned, not {}", settings.size,
                     settings.features));
  expect(settings.heads * settings.size <= x[2],
         fmt::format("{} heads of {} features are more than the {} there are", settings.heads, settings.size,
                     x[2]));
  expect_type(inputs, {position_input::kTable}, DType::f32);
  expect(table.size() == 2 && table[1] == settings.features,
         fmt::format("a table of shape {} met {} features", to_string(table), settings.features));
  expect_positions(inputs[position_input::kFirstPosition], inputs[position_input::kStart], x, table[0]);
  return {inputs[position_input::kX]};
}

std::vector<TensorId> Rotary::gradient(const Backward& backward) const {
  RotarySettings back = settings;
  back.inverse = !settings.inverse;
  std::vector<TensorId> gradients(position_input::kInputs, kNone);
  gradients[position_input::kX] = backward.build.emit<Rotary>(
      {backward.dy[kY], backward.x(position_input::kTable), backward.x(position_input::kFirstPosition),
       backward.x(position_input::kStart)},
      back);
  return gradients;
}

std::shared_ptr<const Operation> Rotary::on_part(const SharedPart& part) const {
  RotarySettings own = settings;
  own.heads = 0;
  int64_t begin = 0;
  for (const int64_t section : part.sections) {
    const int64_t turned = std::clamp<int64_t>(settings.heads * settings.size - begin, 0, section);
    expect((turned == 0 || turned == section) && section % (settings.size * part.along.ranks) == 0,
           fmt::format("{} heads of {} features cannot be shared by {} ranks", section / settings.size,
                       settings.size, part.along.ranks));
    own.heads += turned / settings.size / part.along.ranks;
    begin += section;
  }
  return std::make_shared<Rotary>(own);
}

/// Two products and a sum for each feature that is turned.
double Rotary::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  const Shape& x = inputs[position_input::kX].shape;
  return 3.0 * static_cast<double>(x[0] * x[1]) * static_cast<double>(settings.heads * settings.features);
}

std::vector<double> rotary_table(double theta, int64_t features, int64_t positions) {
  const int64_t pairs = features / 2;
  std::vector<double> slowness, table;  // of each pair: positions for an angle of 1
  for (int64_t pair = 0; pair < pairs; ++pair)
    slowness.push_back(std::pow(theta, 2 * static_cast<double>(pair) / static_cast<double>(features)));
  table.reserve(static_cast<size_t>(positions * features));
  for (int64_t p = 0; p < positions; ++p) {
    for (const double each : slowness) table.push_back(std::cos(static_cast<double>(p) / each));
    for (const double each : slowness) table.push_back(std::sin(static_cast<double>(p) / each));
  }
  return table;
}

}  // namespace trainer
