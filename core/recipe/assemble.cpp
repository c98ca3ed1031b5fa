// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/assemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "core/data/formats.h"
#include "core/graph/ops/batch_norm.h"
#include "core/recipe/teacher.h"
#include "core/tasks/confusion_matrix.h"

namespace trainer {
namespace {

TaskContext task_context(const RunSpec& run) {
  const Recipe& recipe = run.recipe();
  return {.input = recipe.model.input,
          .input_kind = recipe.model.kind(),
          .output = run.output(),
          .format = recipe.data.format,
          .gives_label_maps = recipe.data.chosen_format().gives_label_maps(),
          .formats_of_label_maps = formats_that([](const auto& each) { return each.gives_label_maps(); }),
          .reads_masks = recipe.data.chosen_format().reads_masks(),
          .gives_label_sets = recipe.data.chosen_format().gives_label_sets(),
          .mixes = recipe.data.images.mix.any(),
          .corrupts = !recipe.data.images.corruption.empty(),
          .origin_of = [&recipe](const std::string& key) { return recipe.origin_of(key); }};
}

/// The task's metrics that the recipe names, in its order, after the loss.
std::vector<Metric> wanted_metrics(const RunSpec& run) {
  const Recipe& recipe = run.recipe();
  const Task& task = task_of(run);
  std::vector<Metric> wanted = {loss_metric()};
  for (const std::string& name : recipe.validation.metrics) {
    const Metric* metric = find_metric(task.metrics(), name);
    if (metric == nullptr) {
      const std::vector<std::string> names = names_of(task.metrics());
      fail_at(recipe.origin_of("validation.metrics"),
              fmt::format("{} is not measured in {} (loss.name: {}); set validation.metrics to some of: {}",
                          name, task.name(), recipe.loss->chosen_as, fmt::join(names, ", ")));
    }
    wanted.push_back(*metric);
  }
  if (recipe.loss->normalizes_by_valid_targets())
    std::ranges::transform(wanted, wanted.begin(), over_valid_targets);
  return wanted;
}

/// Whether evaluation outputs the cells of a confusion matrix: if a metric is computed from it or, with
/// `detailed`, as `trainer eval` prints each class, if it has a use.
bool has_matrix(const RunSpec& run, const std::vector<Metric>& wanted, bool detailed) {
  const Task& task = task_of(run);
  const auto reads = [](const Metric& metric) { return !metric.matrix.empty(); };
  const auto reading = std::ranges::find_if(wanted, reads);
  if (class_count(run) <= kMostConfusionClasses || task.has_label_sets())
    return reading != wanted.end() || (detailed && std::ranges::any_of(task.metrics(), reads));
  if (reading == wanted.end()) return false;
  fail_at(run.recipe().origin_of("validation.metrics"),
          fmt::format("{} needs a confusion matrix, which is kept of at most {} classes; the network has {}",
                      reading->name, kMostConfusionClasses, class_count(run)));
}

/// The numbers that an entry reads for bytes of images of its split.
PixelNumbers pixel_numbers(const Recipe& recipe, std::string_view entry) {
  const Split split = entry == entry_name::kTrainStep ? Split::train : Split::val;
  PixelMap map = pixel_map(recipe.data.images.transform_list(split), recipe.model.input[0]);
  return {.scale = std::move(map.scale), .offset = std::move(map.offset)};
}

/// Those of the entries that the program's use has, except of prediction; empty if the network reads no
/// images.
std::map<std::string, PixelNumbers> pixels_of_entries(const Recipe& recipe) {
  std::map<std::string, PixelNumbers> numbers;
  if (recipe.model.kind() != InputKind::pixels) return numbers;
  for (const char* entry : {entry_name::kTrainStep, entry_name::kEvaluate})
    numbers[entry] = pixel_numbers(recipe, entry);
  return numbers;
}

/// Throws Error (exit 78) if a group of the optimizer has no parameter.
void check_groups(const Optimizer& optimizer, const Program& program) {
  std::vector<std::string> trained;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role == Role::parameter && !tensor.frozen) trained.push_back(tensor.name);
  }
  optimizer.check_groups(trained);
}

PruneSpec prune_spec(const Recipe& recipe) {
  return recipe.compression.prune_spec([&recipe](const std::string& key) { return recipe.origin_of(key); });
}

FakeQuantizeSpec quantize_spec(const Recipe& recipe, int64_t begin) {
  return recipe.compression.quantize.spec(
      begin, [&recipe](const std::string& key) { return recipe.origin_of(key); });
}

/// Throws Error (exit 78) if products have nothing to round, or batch normalisations would use the first
/// values of their statistics in training.
void check_quantize(const Recipe& recipe, const Program& program) {
  fake_quantized(program, quantize_spec(recipe, 0));
  if (recipe.model.initial_weights) return;
  for (const Node& node : program.find_entry(entry_name::kTrainStep)->nodes) {
    if (dynamic_cast<const BatchNormInference*>(node.op.get()) == nullptr) continue;
    if (node.origin.path.starts_with(kTeacherPrefix)) continue;
    fail_at(recipe.origin_of("compression.quantize"),
            "batch normalisation uses running statistics while products are rounded, so the network must "
            "have been "
            "trained before; name its weights in model.initial_weights");
  }
}

Reported reported_by(const RunSpec& run, bool detailed) {
  Reported reported{.metrics = wanted_metrics(run)};
  reported.has_matrix = has_matrix(run, reported.metrics, detailed);
  reported.has_scores =
      std::ranges::any_of(reported.metrics, [](const Metric& metric) { return !metric.scores.empty(); });
  return reported;
}

ForwardSpec forward_spec(const RunSpec& run, const ProgramUse& use) {
  const Recipe& recipe = run.recipe();
  ForwardSpec spec{.use = use,
                   .network = &recipe.model,
                   .loss = recipe.loss.get(),
                   .task = task_context(run),
                   .samples = run.batch().micro_batch,
                   .seed = run.seed(),
                   .pixels = pixels_of_entries(recipe),
                   .masks_documents = recipe.data.tokens.mask_documents,
                   .pads_tokens = recipe.model.kind() == InputKind::text,
                   .given_statistics = recipe.compression.quantize.is_asked()};
  if (use.purpose == Purpose::train) spec.teacher = teacher_program(run);
  spec.reported = [run, detailed = use.purpose == Purpose::evaluate] { return reported_by(run, detailed); };
  return spec;
}

}  // namespace

std::vector<Pass> passes_for(const RunSpec& run, const ProgramRequest& request) {
  const Recipe& recipe = run.recipe();
  StepSpec spec{.forward = forward_spec(run, request.use),
                .passes = {.trains = request.use.purpose == Purpose::train,
                           .recompute = *recipe.memory.parsed_recompute(),
                           .planner = request.planner},
                .precision = recipe.training.parsed_precision(),
                .int8 = request.int8,
                .observation = request.observation,
                .left_out = request.disabled};
  spec.forward.balanced_weights = request.balanced_weights;
  // Ranges are those of the noisy images that the network was trained on.
  if (request.observation && !spec.forward.pixels.empty())
    spec.forward.pixels[entry_name::kPredict] = pixel_numbers(recipe, entry_name::kPredict);
  if (!spec.passes.trains) return inference(spec);
  // Mixup mixes numbers, on the host.
  if (request.is_async && recipe.data.images.mix.mixup == 0) spec.passes.pixels = spec.forward.pixels;
  spec.passes.samples = request.samples;
  if (run.batch().is_even()) {
    spec.micro_batches = run.batch().micro_batches();
  } else {
    spec.shares = run.batch().shares();
  }
  spec.mesh = run.mesh();
  spec.rank = run.rank();
  spec.pipeline = run.pipeline();
  if (spec.mesh.tensor > 1) spec.tensor_origin = recipe.origin_of("parallelism.tensor");
  spec.sync_batch_norm = recipe.parallelism.sync_batch_norm;
  spec.shard_optimizer = recipe.parallelism.shard_optimizer && run.mesh().size(Axis::data) > 1;
  spec.bucket_bytes = recipe.parallelism.bucket.bytes;
  spec.update = {.optimizer = recipe.optimizer.get(),
                 .learning_rates = request.lr_table,
                 .guards = recipe.guards.step_guards(scales_loss(spec.precision)),
                 .adapts_lr = recipe.lr_scheduler->plateau().has_value()};
  if (recipe.compression.prunes()) spec.prune = prune_spec(recipe);
  if (recipe.compression.quantize.is_asked()) spec.fake_quantize = quantize_spec(recipe, request.rounds_from);
  spec.ema_decay = recipe.training.ema_decay;
  spec.ema_warmup = recipe.training.ema_warmup;
  return training_step(spec);
}

Program make_program(const RunSpec& run, const std::vector<Pass>& passes, const PassObserver& observe) try {
  Program program;
  run_passes(program, passes, observe);
  return program;
} catch (const NameClash& clash) {
  run.recipe().model.refuse_name(clash.name());
  throw;
}

Program forward_program(const RunSpec& run, const ProgramUse& use) {
  Program program = make_program(run, forward_stages(forward_spec(run, use)));
  if (use.purpose != Purpose::train) return program;
  check_groups(*run.recipe().optimizer, program);
  if (run.recipe().compression.prunes()) pruned_weights(program, prune_spec(run.recipe()));
  if (run.recipe().compression.quantize.is_asked()) check_quantize(run.recipe(), program);
  return program;
}

Program int8_program(const RunSpec& run, const std::shared_ptr<const Int8Network>& int8) {
  return make_program(run, int8_stages(forward_spec(run, {.purpose = Purpose::predict}), int8));
}

void check_network(const RunSpec& run) {
  forward_program(run);
  if (run.mesh().tensor == 1) return;
  std::vector<Pass> passes = passes_for(run, {.use = {}, .lr_table = {0}});
  const auto cut = std::ranges::find(passes, "tensor_parallel", &Pass::name);
  if (cut == passes.end()) throw std::logic_error("no pass shares operations");
  passes.erase(cut + 1, passes.end());
  make_program(run, passes);
}

const Task& task_of(const RunSpec& run) {
  return task_for(run.output(), run.recipe().loss->target_kind(), run.recipe().model.kind());
}

int64_t class_count(const RunSpec& run) {
  return task_of(run).classes(run.output());
}

std::vector<Metric> evaluated_metrics(const RunSpec& run, bool averages) {
  std::vector<Metric> metrics = wanted_metrics(run);
  return averages ? with_averages(std::move(metrics)) : metrics;
}

void check_prediction(const RunSpec& run) {
  task_of(run).check_prediction(task_context(run));
}

BatchInputs batch_contents(const RunSpec& run, const Program& program) {
  BatchInputs inputs = batch_inputs(program);
  if (program.find_entry(entry_name::kPredict) == nullptr) return inputs;
  if (task_of(run).has_label_sets()) {
    inputs.push_back({.name = input_name::kTargets, .dtype = DType::f32, .row = {class_count(run)}});
  } else {
    inputs.push_back({.name = input_name::kLabels, .dtype = DType::i32, .row = {}});
  }
  return inputs;
}

}  // namespace trainer
