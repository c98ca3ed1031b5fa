// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/trained_network.h"

#include <fmt/format.h>

#include "apps/trainer/devices.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/printable.h"
#include "core/recipe/about.h"
#include "core/recipe/memory_fit.h"
#include "core/run/int8_weights.h"
#include "core/run/tuning_file.h"
#include "core/run/weights.h"
#include "core/session/device.h"
#include "core/session/earlier_split.h"
#include "core/session/start.h"
#include "core/storage/safetensors.h"

namespace trainer {
namespace {

/// The settings saved with the weights' run: its threads, micro-batch and algorithms give bitwise identical
/// results again.
Start start_of(const TrainedFiles& files) {
  Start start;
  if (!files.run.empty()) start.from = newest_checkpoint(checkpoint_root(files.run), [](const auto&) {});
  return start;
}

/// The algorithms that a run has kept.
Tuning tuning_of(const Recipe& recipe, const TrainedFiles& files, const Start& start) {
  Tuning tuning{.keeps_own = recipe.run.deterministic || !files.run.empty()};
  if (start.from) {
    tuning.fastest = start.from->state.algorithms;
  } else if (!files.run.empty()) {
    tuning.fastest = load_tuning(files.run / kTuningFile).fastest;
  }
  return recipe.runtime.autotune ? tuning : timed_always(std::move(tuning));
}

/// Weights get their values from files.
void initialize_without_weights(Executable& executable, uint64_t seed) {
  const std::vector<Tensor>& tensors = executable.plan().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_persistent(tensors[i].role) && !is_weight(tensors[i]))
      initialize(executable, static_cast<TensorId>(i), seed);
  }
}

}  // namespace

Start TrainedNetwork::open(const RunSpec& spec, int64_t local_rank) {
  const Recipe& recipe = spec.recipe();
  Start start = start_of(files_);
  tuning_ = tuning_of(recipe, files_, start);
  const bool must_keep = false;  // weights from a GPU are evaluated on a CPU, too
  DeviceChoice device = choose_device(recipe.device, start.from ? &*start.from : nullptr, must_keep);
  device.local_rank = local_rank;
  // With a checkpoint several ranks have the threads of one process, and so its bits.
  if (spec.ranks_on_host() > 1 && !start.from)
    device.threads = threads_of(recipe.device, spec.ranks_on_host());
  backend_ = open_device(spec, tuning_, device);
  if (start.from && start.from->state.facts.contains(fact_name::kDevice) &&
      start.from->state.facts.at(fact_name::kDevice) != device.type) {
    print_warning(fmt::format("trained on {}, evaluated on {} ({}): the last bits may differ",
                              start.from->state.facts.at(fact_name::kDevice), device.type, device.reason));
  }
  for (const std::string& text : files_.damaged) print_warning(fmt::format("skipped: {}", text));
  set_precision(spec, *backend_.planner);
  return start;
}

void TrainedNetwork::load(const RunSpec& spec, JobRequest request) {
  if (request.observation == nullptr) request.int8 = int8_network_in(files_.model);
  job_ = make_job(spec, *backend_.planner, request);
  require_memory(*backend_.planner, *job_);
  executable_ = std::make_unique<Executable>(job_->plan, *backend_.device, spec.recipe().runtime.cuda_graph);
  executable_->on_warning([](const std::string& text) { print_warning(text); });
  initialize_without_weights(*executable_, spec.seed());
  const bool averages = request.use.averages;
  const LoadedWeights loaded =
      load_trained(*executable_, {.model = files_.model,
                                  .averages = averages ? files_.averages : std::filesystem::path(),
                                  .tied = spec.recipe().model.tied_weights()});
  if (!loaded.prefixes.empty())
    print_warning(fmt::format("{}: {}", one_line(files_.model.string()), prefix_remark(loaded)));
}

RunSpec TrainedNetwork::sized(const RunSpec& given, const Start& start, const BatchRows& rows) const {
  if (rows.exactly) return given.with_micro_batch(*rows.exactly);
  RunSpec spec = with_earlier_micro_batch(given, start);
  // The memory that counts is that of training: with other batch sizes, sums differ in their last bits.
  if (spec.searches_micro_batch()) spec = make_fitting_job(spec, *backend_.planner).spec;
  if (rows.at_most && *rows.at_most < spec.batch().micro_batch) spec = spec.with_micro_batch(*rows.at_most);
  return spec;
}

TrainedNetwork::TrainedNetwork(const RunSpec& given, TrainedFiles files, Purpose purpose,
                               const BatchRows& rows, std::shared_ptr<const RangeObservation> observation,
                               int64_t local_rank)
    : files_(std::move(files)) {
  if (purpose == Purpose::evaluate) require_split_of(given.recipe(), files_.model);
  const Start start = open(given, local_rank);
  const RunSpec spec = sized(given, start, rows);
  const bool averages = purpose == Purpose::evaluate && !files_.averages.empty();
  load(spec, {.use = {.purpose = purpose, .averages = averages},
              .balanced_weights = class_weights_in(SafetensorsFile(files_.model).metadata()),
              .observation = std::move(observation)});
}

TrainedNetwork::TrainedNetwork(const RunSpec& spec, TrainedFiles files, const GenerationSize& size,
                               int64_t local_rank)
    : files_(std::move(files)) {
  open(spec, local_rank);
  load(spec, {.use = {.purpose = Purpose::generate, .generation = size}});
}

}  // namespace trainer
