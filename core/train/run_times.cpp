// SPDX-License-Identifier: Apache-2.0
#include "core/train/run_times.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/graph/operation.h"
#include "core/host/process.h"

namespace trainer {

double RunTimes::total() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

double RunTimes::percentile(double share) const {
  std::vector<double> sorted = seconds;
  std::ranges::sort(sorted);
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted.at(std::clamp<size_t>(rank, 1, sorted.size()) - 1);
}

RunTimes time_runs(Device& device, int64_t warm_up, int64_t runs, const std::function<void()>& run) {
  const auto once = [&] {
    const double began = steady_seconds();
    run();
    device.synchronize(device.record_event());
    return steady_seconds() - began;
  };
  for (int64_t i = 0; i < warm_up; ++i) once();
  RunTimes times;
  times.seconds.reserve(static_cast<size_t>(runs));
  const std::optional<double> before = device.read_device().energy_j;
  for (int64_t i = 0; i < runs; ++i) times.seconds.push_back(once());
  const std::optional<double> after = device.read_device().energy_j;
  if (before && after) times.joules = *after - *before;
  return times;
}

std::vector<LayerTime> time_layers(Executable& executable, int64_t runs, const std::function<void()>& run) {
  std::vector<LayerTime> layers;
  std::map<std::string, size_t> rows;
  executable.observe([&](const PlannedNode& planned, double begin, double end) {
    const Node& node = planned.node;
    const std::string place = node.origin.path.empty() ? std::string(node.op->name()) : node.origin.path;
    const auto [row, is_new] = rows.emplace(place, layers.size());
    if (is_new) layers.push_back({.place = place, .seconds = {}});
    layers[row->second].seconds[node.phase] += (end - begin) / static_cast<double>(runs);
  });
  try {
    for (int64_t i = 0; i < runs; ++i) run();
  } catch (...) {
    executable.observe({});
    throw;
  }
  executable.observe({});
  return layers;
}

}  // namespace trainer
