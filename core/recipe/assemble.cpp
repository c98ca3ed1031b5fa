// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/assemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "core/config/patterns.h"
#include "core/graph/ops/embedding.h"
#include "core/recipe/generation.h"
#include "core/step/step.h"
#include "core/tasks/confusion_matrix.h"

namespace trainer {
namespace {

TaskSetting task_setting(const Recipe& recipe, const Shape& output) {
  return {.input = recipe.model.input,
          .input_kind = recipe.model.kind(),
          .output = output,
          .format = recipe.data.format,
          .gives_label_maps = source_format(recipe.data).gives_label_maps,
          .formats_of_label_maps = formats_with_label_maps(),
          .gives_label_sets = may_give_label_sets(recipe.data),
          .mixes = recipe.data.mix.any(),
          .origin_of = [&recipe](const std::string& key) { return recipe.origin_of(key); }};
}

/// The task's metrics that the recipe names, in its order, after the loss.
std::vector<Metric> wanted_metrics(const Recipe& recipe, const Task& task) {
  std::vector<Metric> wanted = {loss_metric()};
  for (const std::string& name : recipe.validation.metrics) {
    const Metric* metric = find_metric(task.metrics(), name);
    if (metric == nullptr) {
      const std::vector<std::string> names = names_of(task.metrics());
      fail_at(
          recipe.origin_of("validation.metrics"),
          names.empty()
              ? fmt::format(
                    "{} is not measured with loss.name: {}, only the loss; set validation.metrics to []",
                    name, recipe.loss->chosen_as)
              : fmt::format("{} is not measured in {} (loss.name: {}); set validation.metrics to some of: {}",
                            name, task.name(), recipe.loss->chosen_as, fmt::join(names, ", ")));
    }
    wanted.push_back(*metric);
  }
  if (recipe.loss->counts()) std::ranges::transform(wanted, wanted.begin(), over_counted);
  return wanted;
}

/// Whether evaluation puts out the cells of a confusion matrix: where a metric is a function of it and, with
/// `always`, where it has a use.
bool makes_matrix(const Recipe& recipe, const Task& task, const std::vector<Metric>& wanted, int64_t classes,
                  bool always) {
  const auto reads = [](const Metric& metric) { return !metric.matrix.empty(); };
  const auto reading = std::ranges::find_if(wanted, reads);
  if (classes <= kMostConfusionClasses || task.has_label_sets())
    return reading != wanted.end() || (always && std::ranges::any_of(task.metrics(), reads));
  if (reading == wanted.end()) return false;
  fail_at(recipe.origin_of("validation.metrics"),
          fmt::format("{} needs a confusion matrix, which is kept of at most {} classes; the network has {}",
                      reading->name, kMostConfusionClasses, classes));
}

bool is_wanted(const std::vector<Metric>& metrics, const std::string& sum) {
  return std::ranges::any_of(metrics, [&](const Metric& metric) {
    return std::ranges::find(metric.sums, sum) != metric.sums.end();
  });
}

/// What each entry makes of the bytes of its split's pictures. Mixup blends them as numbers, on the host.
std::map<std::string, PixelScales> pixel_scales(const Recipe& recipe) {
  std::map<std::string, PixelScales> scales;
  if (recipe.model.kind() != InputKind::pixels) return scales;
  for (const auto& [entry, split] :
       {std::pair{entry_name::kTrainStep, Split::train}, std::pair{entry_name::kEvaluate, Split::val}}) {
    const PixelMap map = pixel_map(recipe.data.transform_list(split), recipe.model.input[0]);
    scales[entry] = {.scale = map.scale, .offset = map.offset};
  }
  return scales;
}

/// What validation is to report besides the loss. `detailed`: also what `trainer eval` prints of each class.
void add_metrics(Builder& build, const Recipe& recipe, TensorId logits, const Targets& targets,
                 bool detailed) {
  Entry& entry = build.entry();
  const Shape shape = build.shape(logits);
  const Task& task = task_for(shape, recipe.loss->target_kind());
  build.set_origin(recipe.origin_of("validation.metrics"));
  const std::vector<Metric> wanted = wanted_metrics(recipe, task);
  for (const MetricSum& sum : task.sums()) {
    if (is_wanted(wanted, sum.output))
      entry.outputs.push_back({sum.output, sum.build(build, logits, targets)});
  }
  if (!makes_matrix(recipe, task, wanted, task.classes(shape), detailed)) return;
  entry.outputs.push_back({output_name::kConfusionCells, task.build_cells(build, logits, targets)});
}

Entry forward_entry(Program& program, const Recipe& recipe, TensorId input, std::string_view name,
                    bool detailed) {
  const bool training = name == entry_name::kTrainStep;
  Entry entry{std::string(name)};
  Builder build(program, entry);
  const LayerContext context{.build = build,
                             .name = "",
                             .training = training,
                             .seed = static_cast<uint64_t>(recipe.run.seed),
                             .sample_index = program.find(input_name::kSampleIndex),
                             .step = step_counter(program),
                             .document_start = program.find(input_name::kDocumentStart)};
  const TensorId logits = recipe.model.build(context, input).back();
  program.output_shape = build.shape(logits);
  if (name == entry_name::kPredict) {
    entry.outputs.push_back({output_name::kLogits, logits});
    return entry;
  }
  const TaskSetting setting = task_setting(recipe, build.shape(logits));
  const Task& task = task_for(setting.output, recipe.loss->target_kind());
  Targets targets = task.declare_inputs(program, setting, training);
  targets.ignored_label = recipe.loss->ignored_label();
  const LossSums loss = task.build_loss(build, *recipe.loss, logits, targets);
  entry.outputs.push_back({output_name::kLoss, loss.sum});
  if (loss.weight != kNone) entry.outputs.push_back({output_name::kLossWeight, loss.weight});
  if (training) return entry;
  if (loss.counted != kNone) entry.outputs.push_back({output_name::kCounted, loss.counted});
  add_metrics(build, recipe, logits, targets, detailed);
  entry.outputs.push_back({output_name::kLogits, logits});
  return entry;
}

/// Throws where model.freeze names nothing, or everything.
void check_freeze(const Recipe& recipe, const Program& program) {
  const std::vector<std::string>& patterns = recipe.model.freeze;
  if (patterns.empty()) return;
  std::vector<std::string> names;
  bool trains = false;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role != Role::parameter && tensor.role != Role::state) continue;
    if (tensor.spec.dtype == DType::f32) names.push_back(tensor.name);
    trains = trains || (tensor.role == Role::parameter && !tensor.frozen);
  }
  Diagnostics diagnostics;
  const Origin origin = recipe.origin_of("model.freeze");
  check_patterns(patterns, names, "parameter or running statistic", origin, diagnostics);
  if (!trains) diagnostics.error(origin, "leaves no parameter to train; freeze fewer");
  diagnostics.throw_if_any();
}

/// Throws where a group of the optimizer has no parameter.
void check_groups(const Recipe& recipe, const Program& program) {
  std::vector<std::string> names;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role == Role::parameter && !tensor.frozen) names.push_back(tensor.name);
  }
  recipe.optimizer->check_groups(names);
}

/// Throws where the ranks are GPUs, the only devices that compute asynchronously.
bool shards_optimizer(const RunSpec& spec, bool is_async) {
  const Recipe& recipe = spec.recipe();
  const bool shards = recipe.parallelism.shard_optimizer && spec.ranks() > 1;
  if (shards && is_async) {
    fail_at(recipe.origin_of("parallelism.shard_optimizer"),
            "works among CPUs only, not yet with NCCL; remove it, or set device.type=cpu");
  }
  return shards;
}

}  // namespace

Program forward_program(const RunSpec& spec, Purpose purpose, const SequenceExtents& extents) {
  const Recipe& recipe = spec.recipe();
  if (purpose == Purpose::generate) return generation_program(recipe, extents);
  Program program;
  const int64_t rows = spec.batch().micro_batch;
  TensorId input = kNone;
  try {
    input = recipe.model.declare_input(program, rows);
  } catch (const TooLarge& problem) {
    fail_at(recipe.origin_of("model.input"), problem.what());
  }
  program.input(input_name::kSampleIndex, {{rows}, DType::i32});
  if (recipe.data.separates() && purpose != Purpose::predict)
    program.input(input_name::kDocumentStart, {{rows, recipe.model.input[0]}, DType::i32});
  auto add = [&](const char* name) {
    program.entries.push_back(forward_entry(program, recipe, input, name, purpose == Purpose::evaluate));
  };
  if (purpose == Purpose::train) add(entry_name::kTrainStep);
  add(purpose == Purpose::predict ? entry_name::kPredict : entry_name::kEvaluate);
  check_freeze(recipe, program);
  check_vocabulary(program, class_count(recipe, program));
  if (purpose == Purpose::train) check_groups(recipe, program);
  return program;
}

void check_vocabulary(const Program& program, int64_t outputs) {
  for (const Entry& entry : program.entries) {
    for (const Node& node : entry.nodes) {
      if (dynamic_cast<const Embedding*>(node.op.get()) == nullptr) continue;
      const int64_t rows = program.spec(node.inputs[Embedding::kTable]).shape[0];
      if (rows >= outputs) continue;
      fail_at(node.origin,
              fmt::format("the table has {} rows, but token ids reach {}, as the network has {} outputs; set "
                          "vocabulary to {} or more",
                          rows, outputs - 1, outputs, outputs));
    }
  }
}

const Shape& logits_shape(const Program& program) {
  if (program.output_shape.empty()) throw std::logic_error("the program has no output");
  return program.output_shape;
}

const Task& task_of(const Recipe& recipe, const Program& program) {
  return task_for(logits_shape(program), recipe.loss->target_kind());
}

int64_t class_count(const Recipe& recipe, const Program& program) {
  return task_of(recipe, program).classes(logits_shape(program));
}

std::vector<Metric> evaluated_metrics(const Recipe& recipe, const Program& program, bool averages) {
  std::vector<Metric> metrics = wanted_metrics(recipe, task_of(recipe, program));
  return averages ? with_averages(std::move(metrics)) : metrics;
}

void check_prediction(const Recipe& recipe, const Program& program) {
  task_of(recipe, program).check_prediction(task_setting(recipe, logits_shape(program)));
}

BatchInputs batch_contents(const Recipe& recipe, const Program& program) {
  BatchInputs inputs = batch_inputs(program);
  if (program.find_entry(entry_name::kPredict) == nullptr) return inputs;
  if (task_of(recipe, program).has_label_sets()) {
    inputs.push_back(
        {.name = input_name::kTargets, .dtype = DType::f32, .row = {class_count(recipe, program)}});
  } else {
    inputs.push_back({.name = input_name::kLabels, .dtype = DType::i32, .row = {}});
  }
  return inputs;
}

std::vector<Pass> passes_for(const RunSpec& run, const PassSetting& setting) {
  const Recipe& recipe = run.recipe();
  StepSpec spec{.passes = {.trains = setting.purpose == Purpose::train,
                           .generates = setting.purpose == Purpose::generate,
                           .recompute = *recipe.memory.parsed_recompute(),
                           .planner = setting.planner},
                .precision = recipe.training.parsed_precision(),
                .left_out = setting.disabled};
  if (!spec.passes.trains) return inference(spec, setting.averages);
  if (setting.is_async && recipe.data.mix.mixup == 0) spec.passes.pixels = pixel_scales(recipe);
  spec.passes.samples = setting.samples;
  spec.micro_batches = run.batch().micro_batches();
  spec.ranks = run.ranks();
  spec.sync_batch_norm = recipe.parallelism.sync_batch_norm;
  spec.shard_optimizer = shards_optimizer(run, setting.is_async);
  spec.bucket_bytes = recipe.parallelism.bucket.bytes;
  spec.counts_targets = recipe.loss->counts();
  spec.update = {.optimizer = recipe.optimizer.get(),
                 .learning_rates = setting.lr_table,
                 .guards = recipe.guards.step_guards(scales_loss(spec.precision)),
                 .adapts_lr = recipe.lr_scheduler->plateau().has_value()};
  spec.ema_decay = recipe.training.ema_decay;
  return training_step(spec);
}

}  // namespace trainer
