// SPDX-License-Identifier: Apache-2.0
#include "core/train/loop.h"

#include <fmt/format.h>

#include "core/graph/names.h"
#include "core/host/process.h"
#include "core/run/checkpoint_files.h"
#include "core/run/resume.h"

namespace trainer {
namespace {

/// Adds a range to the table of a program whose guards count. Between steps only.
void skip_steps(Executable& executable, StepRange range) {
  const TensorId id = executable.tensor(state_name::kGuardSkipSteps);
  if (id == kNone) throw std::logic_error("the program has no table of steps to skip");
  std::vector<float> table = executable.read(id);
  add_range(table, range);
  executable.write(id, table);
}

}  // namespace

TrainingLoop::TrainingLoop(Executable& executable, DataPipeline& train, DataPipeline* validation,
                           const LoopSettings& settings, LoopOutput output, Checkpoints* checkpoints,
                           StopReason stop_reason)
    : executable_(executable),
      settings_(settings),
      out_(output),
      runner_(executable, train, settings.micro_batches),
      recorder_(executable.backend(), settings, output),
      guard_(settings.guard),
      checkpoints_(checkpoints),
      stop_reason_(std::move(stop_reason)) {
  if (validation == nullptr) return;
  validation_.emplace(executable, *validation, settings_.validation_samples, settings_.averages);
}

std::string TrainingLoop::run(const LoopState& state, Guards guards) {
  start_ = {.step = state.step, .guards = guards};
  recorder_.start(state);
  guard_.restore(state.guard);
  runner_.start_at(state.step + 1);
  const bool done = train();
  if (!done) out_.log.info(fmt::format("{}: stopping after step {}", stopped_for_, recorder_.state().step));
  if (checkpoints_ != nullptr) checkpoints_->save_now(recorder_.state());
  if (done) out_.metrics.complete();
  follow(settings_.steps + 1);
  return done ? "" : stopped_for_;
}

/// Whether it came to the end.
bool TrainingLoop::train() {
  // A run may have been stopped between a step and its evaluation; what it went on from lacks that.
  if (is_validation_due(state().step) && state().validated < state().step) {
    if (!evaluate()) return false;
    if (checkpoints_ != nullptr) checkpoints_->save_now(recorder_.state());
    recorder_.resume_clock();
  }
  // After a return to a checkpoint the next step is another one.
  for (int64_t step = state().step + 1; step <= settings_.steps; step = runner_.last_enqueued() + 1) {
    if (must_stop() || !runner_.await_data([this] { return must_stop(); })) {
      collect(true);
      if (going_back_) roll_back();
      return false;
    }
    follow(step);
    enqueue(step);
    const bool validates = is_validation_due(step);
    const bool saves = checkpoints_ != nullptr && checkpoints_->is_due(step);
    collect(validates || saves || step == settings_.steps);
    if (going_back_) {
      roll_back();
      continue;
    }
    if (validates && !evaluate()) return false;
    if (saves || (validates && checkpoints_ != nullptr && checkpoints_->is_best(recorder_))) {
      checkpoints_->save(recorder_.state());
      recorder_.resume_clock();
    }
    if (checkpoints_ != nullptr) checkpoints_->report();
  }
  return true;
}

bool TrainingLoop::must_stop() {
  if (stopped_for_.empty()) stopped_for_ = stop_reason_();
  return !stopped_for_.empty();
}

bool TrainingLoop::is_validation_due(int64_t step) const {
  if (!validation_ || step == 0) return false;
  const int64_t interval = settings_.validation_interval;
  return step == settings_.steps || (interval > 0 && step % interval == 0);
}

/// A device that works later is timed only now and then.
void TrainingLoop::enqueue(int64_t step) {
  const bool logged = step == settings_.steps || step % settings_.logging_interval == 0;
  const double before = steady_seconds();
  runner_.enqueue(step, logged || !executable_.backend().is_async());
  if (following_) out_.trace->add_step(step, before, steady_seconds());
}

/// Begins to time each operation with the first step of the trace, and ends that after the last one.
void TrainingLoop::follow(int64_t step) {
  const bool wanted = out_.trace != nullptr && step <= settings_.steps && out_.trace->follows(step);
  if (wanted == following_) return;
  following_ = wanted;
  runner_.follow(wanted ? out_.trace : nullptr);
  if (wanted) {
    executable_.observe([trace = out_.trace](const PlannedNode& node, double begin, double end) {
      trace->add_node(node, begin, end);
    });
  } else {
    executable_.observe({});
    out_.trace->write();
  }
}

/// Takes the results of the steps that are done, or of all, and makes room for the next step.
void TrainingLoop::collect(bool all) {
  while (runner_.in_flight() > 0 && (all || going_back_ || runner_.is_full() || runner_.ready())) {
    const StepResult result = runner_.take();
    if (going_back_) continue;  // what followed on the step that is undone
    recorder_.add(result, runner_);
    judge(result);
  }
}

/// What became of the step taken last, as the guard wants to know it.
StepOutcome TrainingLoop::outcome_of(const StepResult& result) const {
  StepOutcome outcome{.step = result.step, .loss = result.loss};
  if (settings_.guard.counts) {
    outcome.reason = static_cast<SkipReason>(runner_.value("guard_reason"));
    if (settings_.knows_norm) outcome.norm = runner_.value("grad_norm");
    outcome.in_a_row = static_cast<int64_t>(runner_.value("guard_in_a_row"));
  }
  if (settings_.scales_loss) {
    outcome.loss_scale = runner_.value("loss_scale");
    outcome.overflows = static_cast<int64_t>(runner_.value("skipped"));
  }
  return outcome;
}

/// Does what the guard says. The first value that is not finite is searched for when the run stops, and once
/// where it goes on.
void TrainingLoop::judge(const StepResult& result) {
  const StepOutcome outcome = outcome_of(result);
  GuardDecision decision = guard_.judge(outcome);
  const bool stops = decision.what != GuardDecision::What::go_on;
  if (decision.nonfinite && (stops || !(searched_ || following_))) {
    decision.text += "; the first such value: " + runner_.find_non_finite(result.step);
    searched_ = true;
  }
  if (decision.what == GuardDecision::What::roll_back && checkpoints_ != nullptr) {
    going_back_ = decision;
    return;
  }
  recorder_.add_decision(decision, outcome, guard_.state());
  if (stops) throw Error(ExitCode::internal, decision.text);
}

/// Back to the newest checkpoint, from where the steps that led here are skipped.
void TrainingLoop::roll_back() {
  const auto warn = [this](const std::string& note) { out_.log.warn(note); };
  const std::optional<ResumePoint> point = checkpoints_->newest(warn);
  if (!point) throw Error(ExitCode::internal, going_back_->text + "; but there is none to go back to");
  const bool is_from_before = point->state.loop.step <= start_.step;
  load_checkpoint(executable_, point->checkpoint, is_from_before ? start_.guards : Guards::same);
  const LoopState& there = point->state.loop;
  skip_steps(executable_, guard_.rolled_back(there.step, there.guard));
  runner_.start_at(there.step + 1);
  recorder_.go_back(there, *going_back_, guard_.state());
  going_back_.reset();
}

/// False where the run is to stop before the end.
bool TrainingLoop::evaluate() {
  const auto means = validation_->run([this] { return must_stop(); });
  if (!means) return false;
  recorder_.add_evaluation(*means);
  return true;
}

}  // namespace trainer
