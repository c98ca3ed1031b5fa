// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/table.h"

#include <algorithm>
#include <stdexcept>

namespace trainer {

const std::vector<std::unique_ptr<Task>>& tasks() {
  static const std::vector<std::unique_ptr<Task>> table = [] {
    std::vector<std::unique_ptr<Task>> rows;
#define TRAINER_ADD_ROW(function) rows.push_back(function());
    TRAINER_TASKS(TRAINER_ADD_ROW)
#undef TRAINER_ADD_ROW
    return rows;
  }();
  return table;
}

const Task& task_for(const Shape& output) {
  const auto found =
      std::ranges::find_if(tasks(), [&](const auto& task) { return task->applies_to(output); });
  if (found == tasks().end()) throw std::logic_error("no task has the output " + to_string(output));
  return **found;
}

std::vector<Metric> all_metrics() {
  std::vector<Metric> all;
  for (const auto& task : tasks()) {
    for (const Metric& metric : task->metrics()) {
      if (find_metric(all, metric.name) == nullptr) all.push_back(metric);
    }
  }
  return all;
}

std::optional<Direction> direction_of(std::string_view metric) {
  if (metric.starts_with(kAveraged)) metric.remove_prefix(std::string_view(kAveraged).size());
  std::vector<Metric> known = all_metrics();
  known.push_back(loss_metric());
  const Metric* found = find_metric(known, metric);
  return found == nullptr ? std::nullopt : std::optional(found->direction);
}

}  // namespace trainer
