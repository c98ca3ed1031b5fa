// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "core/base/printable.h"
#include "core/engine/input_feed.h"
#include "core/engine/traffic.h"
#include "core/graph/names.h"
#include "core/host/limits.h"
#include "core/host/process.h"
#include "core/recipe/cache.h"
#include "core/recipe/classes.h"
#include "core/recipe/stage_programs.h"
#include "core/recipe/step_work.h"
#include "core/run/weights.h"
#include "core/train/device_samples.h"
#include "core/train/evaluation.h"
#include "core/train/mask_updates.h"

namespace trainer {
namespace {

/// Memory added by oneDNN's generated code, thread stacks and the allocator's slack once a run computes.
constexpr int64_t kRuntimeBytes = int64_t{12} << 20;

/// The learning rates of this many updates, which the device holds as a table, take a gibibyte.
constexpr int64_t kMostSteps = int64_t{1} << 28;

/// Whether samples have labels, which the network's output is compared with.
bool measures(Purpose purpose) {
  return purpose == Purpose::train || purpose == Purpose::evaluate;
}

/// The metric that decides on the best weights; none without a validation split.
std::optional<std::string> best_metric(const Recipe& recipe, const LoopSettings& settings) {
  const std::optional<std::string>& given = recipe.checkpoint.keep_best;
  if (!has_split(recipe.data, Split::val) || given == kKeepNone) return std::nullopt;
  if (given) return given;
  const std::vector<std::string> metrics = validation_metrics(settings);
  return metrics.empty() ? output_name::kLoss : metrics.front();
}

/// Throws Error (exit 78) unless pruning begins before it ends, and ends within the run.
PruningSettings pruning_settings(const Recipe& recipe, int64_t steps,
                                 const std::function<int64_t(const Duration&)>& steps_in) {
  PruningSettings settings = recipe.compression.settings(steps_in);
  if (settings.end < settings.begin) {
    fail_at(recipe.origin_of("compression.prune.end"),
            fmt::format("pruning ends after step {}, before it begins after step {}; write a later end",
                        settings.end, settings.begin));
  }
  if (settings.end > steps) {
    fail_at(recipe.origin_of(recipe.compression.end ? "compression.prune.end" : "compression.prune.begin"),
            fmt::format("pruning ends after step {}, and the run after step {}; end it earlier, so that the "
                        "network learns to do without the weights",
                        settings.end, steps));
  }
  return settings;
}

/// Throws Error (exit 78) unless rounding begins within the run.
int64_t first_rounded_step(const Recipe& recipe, int64_t steps,
                           const std::function<int64_t(const Duration&)>& steps_in) {
  const int64_t first = steps_in(recipe.compression.quantize.begin);
  if (first < steps) return first;
  fail_at(
      recipe.origin_of("compression.quantize.begin"),
      fmt::format(
          "rounding begins after step {}, and the run ends after step {}; begin earlier, so that the network "
          "learns to do with rounded numbers",
          first, steps));
}

LoopSettings loop_settings(const Job& job) {
  const Recipe& recipe = job.spec.recipe();
  const TrainingSection& training = recipe.training;
  const int64_t global_batch = training.global_batch_size;
  LoopSettings settings{.batch = job.spec.loaded_batch(),
                        .tokens_of_sample = job.spec.tokens_of_batch() / global_batch};
  settings.averages = training.ema_decay.has_value();
  if (measures(job.use.purpose)) {
    const bool averages = job.use.purpose == Purpose::train ? settings.averages : job.use.averages;
    settings.metrics = evaluated_metrics(job.spec, averages);
    settings.matrix = {class_count(job.spec), task_of(job.spec).has_label_sets()};
    const int32_t ignored = recipe.loss->ignored_label();
    if (ignored >= 0 && ignored < settings.matrix.classes) settings.matrix.ignored = ignored;
    settings.scores = {.classes = settings.matrix.classes,
                       .of_sets = settings.matrix.of_sets,
                       .ranks = recipe.measures(metric_name::kAuroc),
                       .ignored_label = ignored};
  }
  settings.guard = recipe.guards.settings();
  settings.best_metric = best_metric(recipe, settings);
  settings.early_stop = recipe.validation.early_stop_settings();
  settings.plateau = recipe.lr_scheduler->plateau();
  if (training.max_duration.unit == Duration::Unit::epochs) settings.epochs = training.max_duration.count;
  if (job.validation) {
    settings.validation_samples = job.validation->size;
    if (job.validation->label_bytes) {
      settings.known_sums = {
          {sum_name::kTokens, static_cast<double>(job.validation->size * recipe.model.input[0])},
          {sum_name::kBytes, static_cast<double>(*job.validation->label_bytes)}};
    }
    if (const auto& targets = job.validation->targets) {
      settings.known_sums = {{sum_name::kTargetDeviation, targets->deviation},
                             {sum_name::kTargetSquares, targets->squares}};
    }
  }
  if (!job.train) return settings;
  const TrainingOrder order(job.train->size, global_batch, recipe.data.drop_last);
  const auto steps_in = [&](const Duration& duration) {
    return order.steps_in(duration, job.spec.tokens_of_batch());
  };
  settings.steps = steps_in(training.max_duration);
  if (settings.steps > kMostSteps) {
    fail_at(recipe.origin_of("training.max_duration"),
            fmt::format("must be at most {} batches, got {}", kMostSteps, settings.steps));
  }
  if (recipe.compression.prunes()) settings.pruning = pruning_settings(recipe, settings.steps, steps_in);
  if (recipe.compression.quantize.is_asked())
    settings.rounds_from = first_rounded_step(recipe, settings.steps, steps_in);
  if (recipe.run.stop_after) settings.pause_after = steps_in(*recipe.run.stop_after);
  settings.samples_per_epoch =
      recipe.data.drop_last ? job.train->size / global_batch * global_batch : job.train->size;
  settings.validation_interval = steps_in(recipe.validation.interval);
  settings.logging_interval = steps_in(recipe.logging.interval);
  settings.verify_interval = steps_in(recipe.parallelism.verify);
  return settings;
}

CheckpointSettings checkpoint_settings(const Job& job) {
  const Recipe& recipe = job.spec.recipe();
  const CheckpointSection& wanted = recipe.checkpoint;
  CheckpointSettings policy{.keep_latest = wanted.keep_latest,
                            .keep_best = job.settings.best_metric,
                            .allow_changes = recipe.run.allow_changes};
  if (const auto* span = std::get_if<TimeSpan>(&wanted.interval.value)) {
    policy.every_seconds = static_cast<double>(span->seconds);
  } else if (job.train) {
    const TrainingOrder order(job.train->size, recipe.training.global_batch_size, recipe.data.drop_last);
    policy.every_steps =
        order.steps_in(std::get<Duration>(wanted.interval.value), job.spec.tokens_of_batch());
  }
  // Without saves between, none is made for the best evaluation either, unless the recipe asks for it.
  if (!wanted.keep_best && policy.every_steps == 0 && policy.every_seconds == 0) policy.keep_best.reset();
  return policy;
}

std::vector<float> lr_table(const RunSpec& spec, const LoopSettings& settings) {
  const Recipe& recipe = spec.recipe();
  const BatchCounts batches{
      .per_epoch = std::max<int64_t>(1, settings.samples_per_epoch / spec.batch().global_batch),
      .tokens = spec.tokens_of_batch()};
  return learning_rates(*recipe.lr_scheduler, recipe.optimizer->lr_at(recipe.training.global_batch_size),
                        std::max<int64_t>(1, settings.steps), batches);
}

/// Adds to the kind of that name, which may be new.
void add_bytes(std::vector<std::pair<std::string, int64_t>>& kinds, const std::string& kind, int64_t bytes) {
  for (auto& [name, sum] : kinds) {
    if (name == kind) {
      sum += bytes;
      return;
    }
  }
  kinds.emplace_back(kind, bytes);
}

MemoryBudget memory_budget(const Job& job) {
  MemoryBudget budget;
  const auto add = [&](const std::string& kind, int64_t bytes) { add_bytes(budget.kinds, kind, bytes); };
  for (const char* kind : {"parameters", "gradients", "optimizer", "activations", "workspace", "state"})
    add(kind, 0);
  for (const auto& [kind, bytes] : job.plan.persistent_by_kind) add(kind, bytes);
  for (const PlannedEntry& entry : job.plan.entries) {
    if (entry.scratch_bytes != job.plan.scratch_bytes) continue;
    for (const auto& [kind, bytes] : entry.peak_by_kind) add(kind, bytes);
    add("gaps", entry.scratch_bytes - entry.live_bytes);
    break;
  }
  const int64_t rows = job.spec.loaded_batch().micro_batch;
  const int64_t feeds = job.use.purpose == Purpose::train && job.validation ? 2 : 1;
  add("samples", DeviceSamples::device_bytes(job.plan));
  if (job.plan.is_async) add("batches", feeds * InputFeed::device_bytes(job.plan));
  auto& host = job.plan.is_async ? budget.host : budget.kinds;
  // Generation makes no batches: it reads only a few tokens.
  if (job.use.purpose != Purpose::generate) {
    const int64_t ring =
        DataPipeline::ring_bytes(batch_contents(job.spec, job.program), rows, loading_of(job));
    add_bytes(host, "batches", shares_ring(job.plan) ? ring : feeds * ring);
  }
  const int64_t of_train = job.train ? job.train->resident_bytes : 0;
  const int64_t of_validation = job.validation ? job.validation->resident_bytes : 0;
  const bool are_shared = job.train && job.train->is_shared;
  add_bytes(host, "samples", are_shared ? std::max(of_train, of_validation) : of_train + of_validation);
  if (const int64_t bytes = Evaluation::matrix_bytes(job.plan, job.settings.matrix); bytes > 0)
    add_bytes(host, "confusion", bytes);
  if (const int64_t bytes = Evaluation::score_bytes(job.plan, job.settings.scores); bytes > 0)
    add_bytes(host, "scores", bytes);
  if (!job.settings.pruned.empty())
    add_bytes(host, "pruning", MaskUpdates::host_bytes(job.plan, job.settings.pruned));
  if (job.use.purpose == Purpose::train)
    add_bytes(host, "checkpoint", Checkpoints::memory_bytes(job.plan, job.checkpoints));
  else
    add_bytes(host, "loading", loading_bytes(job.plan));
  add_bytes(host, "program", resident_bytes() + kRuntimeBytes);
  return budget;
}

/// Known properties of a split's data, with the network's number of classes.
std::optional<SourceInfo> peek_split(const RunSpec& spec, Split split) {
  std::optional<SourceInfo> info = peek_source(spec.recipe().data, source_request(spec, split));
  if (info) require_same_class_count(spec, split, *info);
  if (info) require_columns(spec, *info);
  return info;
}

/// The weights of `class_weights: balanced`: those that the weights' run has kept, or those of the training
/// labels. None if the recipe has others, or before there is data.
std::vector<double> class_weights(const Job& job, const std::vector<double>& kept) {
  const Recipe& recipe = job.spec.recipe();
  if (!recipe.loss->balances_classes() || !measures(job.use.purpose)) return {};
  if (!kept.empty()) return kept;
  const bool trains = job.use.purpose == Purpose::train;
  const std::optional<SourceInfo> train = trains ? job.train : peek_split(job.spec, Split::train);
  const Origin origin = recipe.origin_of("loss.class_weights");
  if (!train && trains) return {};
  if (!train)
    fail_at(origin,
            "balanced follows from the training labels, which are neither in the file of weights nor in "
            "data.train; name the samples in data.train");
  if (train->labels.empty())
    fail_at(origin, fmt::format("balanced needs one label for each image, which data.format {} does not have",
                                recipe.data.format));
  return balanced_weights(train->labels, class_count(job.spec));
}

/// Refuses uses of 8-bit weights that have no products in 8 bits. Throws Error (exit 78).
void check_int8(const JobRequest& request, const Planner& planner) {
  if (request.int8 == nullptr) return;
  const auto refuse = [&](const std::string& why) {
    throw Error(ExitCode::recipe,
                fmt::format("{} has weights of 8 bits: {}", one_line(request.int8->file), why));
  };
  if (planner.is_async())
    refuse(
        "products in 8 bits run on CPUs only; set device.type=cpu, or export the network (`trainer export`) "
        "for a program that runs it on a GPU");
  if (request.use.purpose == Purpose::generate)
    refuse("generation reads weights of f32 only; name the weights that were quantised");
}

}  // namespace

int64_t MemoryBudget::total() const {
  int64_t sum = 0;
  for (const auto& [kind, bytes] : kinds) sum += bytes;
  return sum;
}

SourceRequest source_request(const RunSpec& spec, Split split) {
  const Recipe& recipe = spec.recipe();
  const int32_t ignored = recipe.loss->ignored_label();
  return {.split = split,
          .network_shape = recipe.model.input,
          .network_classes = class_count(spec),
          .ignored_label = ignored == kNoLabel ? std::nullopt : std::optional<int64_t>(ignored),
          .wants_label_sets = task_of(spec).has_label_sets(),
          .wants_numbers = recipe.loss->target_kind() == TargetKind::numbers,
          .targets = spec.output().size() == 2 ? spec.output()[1] : 0,
          .stratifies = recipe.stratifies(),
          .wants_labels = recipe.stratifies() || recipe.loss->balances_classes(),
          .seed = spec.seed(),
          .shares_budget = spec.ranks() > 1,
          .counts_bytes = split == Split::val && recipe.measures(metric_name::kBitsPerByte),
          .network_kind = recipe.model.kind(),
          .threads = thread_limit(spec.ranks_on_host()).value};
}

std::optional<int64_t> steps_in(const RunSpec& spec, const Duration& duration) {
  const std::optional<SourceInfo> train = peek_split(spec, Split::train);
  if (!train) return std::nullopt;
  const TrainingOrder order(train->size, spec.batch().global_batch, spec.recipe().data.drop_last);
  return order.steps_in(duration, spec.tokens_of_batch());
}

/// A GPU leaves the rank's threads free; the step's own is one of them.
int64_t worker_count(const Job& job) {
  const int64_t others = thread_limit(job.spec.ranks_on_host()).value - 1;
  return job.spec.recipe().data.worker_count(job.plan.is_async ? std::clamp<int64_t>(others, 1, kMostWorkers)
                                                               : 1);
}

Loading loading_of(const Job& job) {
  const DataSection& data = job.spec.recipe().data;
  return {.workers = worker_count(job), .prefetch = data.prefetch, .kept = InputFeed::kept(job.plan)};
}

Job make_job(const RunSpec& spec, const Planner& planner, const JobRequest& request) {
  check_int8(request, planner);
  const Recipe& recipe = spec.recipe();
  Job job{.spec = spec, .use = request.use};
  forward_program(spec, request.use);  // refuses a bad recipe before files are read
  const bool trains = request.use.purpose == Purpose::train;
  if (trains && request.has_data) job.train = peek_split(spec, Split::train);
  if (measures(request.use.purpose) && request.has_data && has_split(recipe.data, Split::val))
    job.validation = peek_split(spec, Split::val);
  job.settings = loop_settings(job);
  job.checkpoints = checkpoint_settings(job);
  job.balanced_weights = class_weights(job, request.balanced_weights);
  ProgramRequest program{
      .use = request.use,
      .lr_table = request.learning_rates.empty() ? lr_table(spec, job.settings) : request.learning_rates,
      .balanced_weights = job.balanced_weights,
      .is_async = planner.is_async(),
      .disabled = request.disabled_passes,
      .planner = &planner,
      .int8 = request.int8,
      .observation = request.observation,
      .rounds_from = job.settings.rounds_from};
  if (trains && request.has_data && recipe.data.images.cache == "device")
    program.samples = cached_samples(spec, planner, {job.train, job.validation});
  if (trains && spec.mesh().stages > 1) {
    job.all_stages =
        request.all_stages ? request.all_stages : program_of_all_stages(spec, program, request.observe);
    job.program = program_of_stage(spec, program, *job.all_stages, request.observe);
  } else {
    job.program = make_program(spec, passes_for(spec, program), request.observe);
  }
  job.settings.pruned = job.program.pruned;
  if (!request.plan) return job;
  job.plan = make_plan(job.program, planner, spec.rank());
  require_same_transfers(job.plan);
  job.settings.data_workers = loading_of(job).workers;
  job.settings.cores = thread_limit(spec.ranks_on_host()).value;
  // A CPU's sensors are those of the whole host.
  job.settings.energy_readers =
      planner.is_async() ? planner.ranks_on_device(spec.ranks_on_host()) : spec.ranks_on_host();
  job.settings.step_flops = step_flops_of_all(job);
  if (const std::optional<DeviceRates> rates = planner.rates())
    job.settings.arithmetic_seconds = arithmetic_seconds(job, *rates);
  job.memory = memory_budget(job);
  return job;
}

std::vector<std::string> remarks_of(const Planner& planner, const Job& job) {
  std::vector<std::string> remarks = planner.remarks();
  remarks.insert(remarks.end(), job.program.remarks.begin(), job.program.remarks.end());
  return remarks;
}

std::vector<MissingData> missing_data(const Recipe& recipe, std::optional<Split> split) {
  const FilePath &train = recipe.data.train, val = recipe.data.val.value_or("");
  std::vector<MissingData> all;
  for (const std::string& file : missing_files(recipe.data, split)) {
    const bool of_train = train.empty() || file.starts_with(train.resolved) ||
                          (train.is_list && train.resolved.find(file) != std::string::npos);
    MissingData missing{of_train ? "data.train" : "data.val", with_base(of_train ? train : val, file)};
    // Both splits may be in one place.
    if (std::ranges::find(all, missing.file, &MissingData::file) == all.end())
      all.push_back(std::move(missing));
  }
  return all;
}

void require_data(const Recipe& recipe, std::optional<Split> split) {
  Diagnostics diagnostics;
  for (const MissingData& missing : missing_data(recipe, split)) {
    diagnostics.error(
        recipe.origin_of(missing.key),
        fmt::format("there is no file {}; correct the path, or try data.format=synthetic", missing.file));
  }
  diagnostics.throw_if_any();
}

}  // namespace trainer
