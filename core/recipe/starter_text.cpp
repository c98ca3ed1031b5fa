// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/starter_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "core/config/value.h"

namespace trainer {
namespace {

std::string numbers(const std::vector<double>& values, double least) {
  std::vector<std::string> texts;
  for (double value : values) texts.push_back(fmt::format("{:.4f}", std::max(value, least)));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace

std::string yaml_line(const std::string& key, const std::string& text) {
  Value value, map;
  value.kind = Value::Kind::scalar;
  value.text = text;
  map.kind = Value::Kind::map;
  map.entries.push_back({key, {}, value});
  return to_yaml(map, false);
}

std::string normalize_line(const Starter& starter, int64_t channels) {
  std::vector<double> mean = starter.statistics.mean, deviation = starter.statistics.deviation;
  if (static_cast<int64_t>(mean.size()) != channels) {
    mean.resize(1);  // for every channel
    deviation.resize(1);
  }
  // A channel of one value alone has no deviation to divide by.
  return fmt::format("    - normalize: {{mean: {}, std: {}}}\n", numbers(mean, 0), numbers(deviation, 1e-3));
}

std::string validation_line(const Starter& starter) {
  if (!starter.data.val.empty()) return "  " + yaml_line("val", starter.data.val.string());
  return fmt::format("  val_fraction: {}                   # set aside for validation\n",
                     kStarterValFraction);
}

StarterLength::StarterLength(int64_t samples, bool has_val, int64_t most_at_once) {
  const double share = has_val ? 1.0 : 1 - kStarterValFraction;
  training = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(samples) * share));
  batch = static_cast<int64_t>(
      std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(training / 8, 1, most_at_once))));
  const int64_t steps_per_epoch = std::max<int64_t>(1, training / batch);
  epochs = std::clamp<int64_t>(kStarterSteps / steps_per_epoch, 5, 40);
  interval = std::clamp<int64_t>(steps_per_epoch / 4, 1, 50);
}

}  // namespace trainer
