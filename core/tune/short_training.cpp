// SPDX-License-Identifier: Apache-2.0
#include "core/tune/short_training.h"

#include <utility>

#include "core/graph/names.h"
#include "core/recipe/initial_weights.h"
#include "core/recipe/memory_fit.h"
#include "core/recipe/teacher.h"
#include "core/train/mask_updates.h"
#include "core/train/replicas.h"

namespace trainer {
namespace {

Backend open_backend(const RunSpec& spec, Tuning& tuning, const OpenDevice& open_device) {
  require_data(spec.recipe());
  tuning = earlier_tuning(spec);
  Backend backend = open_device(spec, tuning, choose_device(spec.recipe().device), nullptr);
  set_precision(spec, *backend.planner);
  return backend;
}

Job fitting_job(const RunSpec& spec, const Planner& planner, std::vector<float> rates) {
  Job job = make_fitting_job(spec, planner, {.learning_rates = std::move(rates)});
  require_memory(planner, job);
  return job;
}

}  // namespace

ShortTraining::ShortTraining(const std::shared_ptr<const Recipe>& recipe, std::vector<float> rates,
                             const OpenDevice& open_device, Log& log)
    : backend_(open_backend(recipe, tuning_, open_device)),
      job_(fitting_job(recipe, *backend_.planner, std::move(rates))),
      machine_(open_machine(backend_, job_, {})) {
  executable().on_warning([&log](const std::string& text) { log.warn(text); });
  load_initial_weights(*recipe, executable());
  load_teacher(recipe, executable());
  if (const auto& pruning = job_.settings.pruning)
    MaskUpdates(executable(), *pruning, job_.settings.pruned).update(0);
  if (job_.settings.averages) start_averages(executable());
  if (job_.program.find(input_name::kSampleNumbers) != kNone)
    samples_.emplace(executable(), *machine_.train.source, machine_.validation.source.get());
  runner_.emplace(executable(), *machine_.train.pipeline, job_.spec.batch().micro_batches(), agreement_);
  runner_->start_at(1);
}

void ShortTraining::train(int64_t most, const StopSignals& signals,
                          const std::function<bool(const StepResult&)>& done) {
  const auto take = [&](int64_t left) {
    while (runner_->in_flight() > left) {
      if (done(runner_->take())) return true;
    }
    return false;
  };
  for (int64_t i = 0; i < most; ++i) {
    runner_->await_data([] { return false; });
    signals.throw_if_asked();
    runner_->enqueue(runner_->last_enqueued() + 1, false);
    if (take(runner_->lag())) return;
  }
  take(0);
}

}  // namespace trainer
