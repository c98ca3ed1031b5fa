// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/metric.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/graph/names.h"

namespace trainer {

bool is_better(Direction direction, double a, double b) {
  if (std::isfinite(a) != std::isfinite(b)) return std::isfinite(a);
  return direction == Direction::smaller ? a < b : a > b;
}

double mean_of_samples(std::span<const double> sums, double samples) {
  return sums[0] / samples;
}

Metric loss_metric() {
  return {.name = output_name::kLoss,
          .help = "mean of the loss over the samples",
          .direction = Direction::smaller,
          .sums = {output_name::kLoss},
          .value = mean_of_samples};
}

Metric over_valid_targets(Metric metric) {
  const bool reads_loss = std::ranges::find(metric.sums, output_name::kLoss) != metric.sums.end();
  if (!metric.matrix.empty() || !metric.scores.empty()) return metric;
  metric.count = reads_loss ? output_name::kLossWeight : output_name::kValidTargets;
  return metric;
}

std::vector<Metric> with_averages(std::vector<Metric> metrics) {
  const size_t count = metrics.size();
  for (size_t i = 0; i < count; ++i) {
    Metric averaged = metrics[i];
    averaged.name.insert(0, kAveraged);
    for (std::string& sum : averaged.sums) sum.insert(0, kAveraged);
    if (!averaged.count.empty()) averaged.count.insert(0, kAveraged);
    if (!averaged.matrix.empty()) averaged.matrix.insert(0, kAveraged);
    if (!averaged.scores.empty()) averaged.scores.insert(0, kAveraged);
    metrics.push_back(std::move(averaged));
  }
  return metrics;
}

const Metric* find_metric(const std::vector<Metric>& metrics, std::string_view name) {
  const auto found = std::ranges::find(metrics, name, &Metric::name);
  return found == metrics.end() ? nullptr : &*found;
}

std::vector<std::string> names_of(const std::vector<Metric>& metrics) {
  std::vector<std::string> names;
  for (const Metric& metric : metrics) names.push_back(metric.name);
  return names;
}

}  // namespace trainer
