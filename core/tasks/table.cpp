// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/table.h"

#include <algorithm>
#include <stdexcept>

#include "core/graph/ops/confusion_cells.h"

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

const Task& task_for(const Shape& output, TargetKind kind, InputKind input) {
  const auto found =
      std::ranges::find_if(tasks(), [&](const auto& task) { return task->applies_to(output, kind, input); });
  if (found == tasks().end()) throw std::logic_error("no task has the output " + to_string(output));
  return **found;
}

TensorId Task::build_cells(Builder& build, TensorId output, const Targets& targets) const {
  const std::vector<TensorId> inputs{output, targets.labels, targets.weights};
  return build.emit<ConfusionCells>(inputs, targets.ignored_label);
}

Judgement Task::judge(std::span<const float>, std::span<const int64_t>) const {
  throw std::logic_error("samples of the task have no labels");
}

void Task::average(std::span<float>, std::span<const float>, const Shape&) const {
  throw std::logic_error("predictions of mirrored samples are refused");
}

PredictedImage Task::draw(std::span<const float>, const Shape&, const PixelNumbers&) const {
  throw std::logic_error("the task draws no images");
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
