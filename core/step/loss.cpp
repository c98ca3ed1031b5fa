// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "core/graph/names.h"
#include "core/step/forward.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

bool is_wanted(const std::vector<Metric>& metrics, const std::string& sum) {
  return std::ranges::any_of(metrics, [&](const Metric& metric) {
    return std::ranges::find(metric.sums, sum) != metric.sums.end();
  });
}

/// The outputs of evaluation besides the loss.
void add_metrics(Builder& build, const ForwardSpec& spec, const Task& task, TensorId logits,
                 const Targets& targets) {
  const Reported reported = spec.reported();
  std::vector<NamedTensor>& outputs = build.entry().outputs;
  build.set_origin(spec.task.origin_of("validation.metrics"));
  for (const MetricSum& sum : task.sums()) {
    if (is_wanted(reported.metrics, sum.output))
      outputs.push_back({sum.output, sum.build(build, logits, targets)});
  }
  if (reported.has_matrix)
    outputs.push_back({output_name::kConfusionCells, task.build_cells(build, logits, targets)});
  if (!reported.has_scores) return;
  outputs.push_back({score_output::kLogits, logits});
  outputs.push_back({score_output::kTargets, task.has_label_sets() ? targets.values : targets.labels});
  outputs.push_back({score_output::kWeights, targets.weights});
}

/// Masks that a task does not read are a mistake in the network, or in the loss.
void require_pixel_labels(const ForwardSpec& spec, const Program& program, const Targets& targets) {
  if (targets.labels != kNone && program.spec(targets.labels).shape.size() == 3) return;
  fail_at(spec.task.origin_of("data.masks"),
          fmt::format("gives a class for each pixel, which needs an output (N, classes, height, width) and "
                      "cross_entropy or focal as loss; the network's output is {}",
                      to_string(spec.task.output)));
}

void add_loss(Program& program, const ForwardSpec& spec, Entry& entry, TensorId logits, TensorId of_teacher) {
  const bool training = entry.name == entry_name::kTrainStep;
  Builder build(program, entry);
  build.set_origin(spec.network->layers.back()->origin);  // an output that does not fit is reported there
  const Task& task = task_for(build.shape(logits), spec.loss->target_kind(), spec.network->kind());
  Targets targets = task.declare_inputs(program, spec.task, training);
  if (spec.task.reads_masks) require_pixel_labels(spec, program, targets);
  targets.ignored_label = spec.loss->ignored_label();
  targets.balanced_weights = spec.balanced_weights;
  if (const auto pixels = spec.pixels.find(entry.name); pixels != spec.pixels.end())
    targets.pixels = &pixels->second;
  targets.teacher = of_teacher;
  const LossSums loss = task.build_loss(build, *spec.loss, logits, targets);
  entry.outputs.push_back({output_name::kLoss, loss.sum});
  if (loss.weight != kNone) entry.outputs.push_back({output_name::kLossWeight, loss.weight});
  if (training) return;
  if (loss.valid_targets != kNone) entry.outputs.push_back({output_name::kValidTargets, loss.valid_targets});
  add_metrics(build, spec, task, logits, targets);
  entry.outputs.push_back({output_name::kLogits, logits});
}

}  // namespace

Pass loss(const ForwardSpec& spec, const std::shared_ptr<Logits>& logits) {
  const auto run = [spec, logits](Program& program) {
    for (Entry& entry : program.entries) {
      const auto of_teacher =
          entry.name == entry_name::kTrainStep ? logits->find(kTeacherLogits) : logits->end();
      add_loss(program, spec, entry, logits->at(entry.name),
               of_teacher == logits->end() ? kNone : of_teacher->second);
    }
  };
  return {.name = "loss",
          .help = "the loss, and the other outputs of evaluation",
          .run = run,
          .after = {"forward", "teacher"}};
}

}  // namespace trainer
