// SPDX-License-Identifier: Apache-2.0
#include "core/train/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/graph/names.h"
#include "core/host/process.h"
#include "core/step/guard.h"
#include "core/train/replicas.h"

namespace trainer {
namespace {

/// Adds a range to the table of a program with guards that count. Between steps only.
void skip_steps(Executable& executable, StepRange range) {
  const TensorId id = executable.tensor(state_name::kGuardSkipSteps);
  if (id == kNone) throw std::logic_error("the program has no table of steps to skip");
  std::vector<int32_t> table = executable.read<int32_t>(id);
  add_range(table, range);
  executable.write(id, table);
}

}  // namespace

TrainingLoop::TrainingLoop(Executable& executable, ProcessGroup& group, DataPipeline& train,
                           DataPipeline* validation, const LoopSettings& settings, LoopOutput output,
                           Checkpointer* checkpoints, StopReason stop_reason)
    : executable_(executable),
      settings_(settings),
      out_(std::move(output)),
      agreement_(group, [this] { return wish(); }),
      runner_(executable, train, settings.batch.micro_batches(), agreement_),
      recorder_(executable, group, settings, out_),
      guard_(settings.guard),
      checkpoints_(checkpoints),
      stop_reason_(std::move(stop_reason)) {
  if (settings_.pruning) masks_.emplace(executable, *settings_.pruning, settings_.pruned);
  if (validation == nullptr) return;
  validation_.emplace(executable, *validation, settings_.validation_samples, settings_.metrics,
                      settings_.averages, settings_.known_sums, settings_.matrix, settings_.scores);
}

LoopEnd TrainingLoop::run(const LoopState& state) {
  recorder_.start(state);
  guard_.restore(state.guard);
  set_learning_rate_factor();
  prune(&TimeShares::starting);
  runner_.start_at(state.step + 1);
  const LoopEnd::What end = train();
  recorder_.share_unreadable(agreement_.group());  // found since the last vote
  const bool stopped = end == LoopEnd::What::stopped;
  if (stopped && stopped_for_.empty()) stopped_for_ = "another rank is to stop";
  if (stopped) out_.log.info(fmt::format("{}: stopping after step {}", stopped_for_, recorder_.state().step));
  save_now(Activity::ending);
  if (end == LoopEnd::What::done) out_.metrics.complete();
  follow(settings_.steps + 1);
  return {.what = end, .reason = stopped ? stopped_for_ : ""};
}

LoopResult TrainingLoop::result() {
  LoopResult result = recorder_.finish();
  const MadeBatches made = runner_.made();
  const auto batches = static_cast<double>(std::max<int64_t>(1, made.batches));
  result.facts.workers = settings_.data_workers;
  result.facts.made_seconds = made.seconds / batches;
  result.facts.made_busy = made.seconds > 0 ? made.processor_seconds / made.seconds : 1;
  return result;
}

LoopEnd::What TrainingLoop::train() {
  using enum LoopEnd::What;
  // A run may have been stopped between a step and its evaluation; the state that it resumed from lacks that.
  if (is_validation_due(state().step) && state().validated < state().step) {
    if (!evaluate()) return stopped;
    save_now(Activity::saving);
    recorder_.resume_clock(&TimeShares::saving);
  }
  if (recorder_.stops_early()) {
    recorder_.stop_early();
    return done;
  }
  if (is_pause_due(state().step)) return paused;
  // After a return to a checkpoint the next step is another one.
  for (int64_t step = state().step + 1; step <= settings_.steps; step = runner_.last_enqueued() + 1) {
    if (leaves_now() || !runner_.await_data([this] { return leaves_now(); })) {
      collect(0);
      if (going_back_) roll_back();
      return stopped;
    }
    follow(step);
    enqueue(step);
    const bool validates = is_validation_due(step);
    const bool saves = checkpoints_ != nullptr && checkpoints_->is_due(step);
    const bool verifies = is_verification_due(step), pauses = is_pause_due(step);
    const bool prunes = masks_ && masks_->is_due(step);
    const bool waits = validates || saves || verifies || pauses || prunes || step == settings_.steps;
    collect(waits ? 0 : runner_.lag());
    if (going_back_ || decided_.stop || decided_.save || decided_.exchange) collect(0);
    const Vote decided = std::exchange(decided_, {});
    if (decided.exchange) recorder_.share_unreadable(agreement_.group());
    if (prunes && !going_back_) prune(&TimeShares::saving);
    if (verifies) verify(step);
    const bool rolls_back = going_back_.has_value();
    if (rolls_back) roll_back();
    if (decided.stop && (validates || rolls_back || step < settings_.steps)) return stopped;
    if (rolls_back) continue;
    if (validates && !evaluate()) return stopped;
    if (validates && recorder_.stops_early()) {
      recorder_.stop_early();
      return done;
    }
    if (pauses) return paused;
    if (checkpoints_ == nullptr) continue;
    if (saves || decided.save || (validates && checkpoints_->is_best(state()))) {
      agreement_.group().set_activity(step, Activity::saving);
      verify(step);
      attempt([this] { checkpoints_->save(state()); });
      recorder_.resume_clock(&TimeShares::saving);
    }
    attempt([this] { checkpoints_->report(); });
  }
  return done;
}

/// This process's vote on the next action of all ranks.
Vote TrainingLoop::wish() {
  if (stopped_for_.empty()) stopped_for_ = stop_reason_();
  return {.stop = !stopped_for_.empty(),
          .save = checkpoints_ != nullptr && checkpoints_->is_overdue(),
          .exchange = agreement_.group().size() > 1 && out_.unreadable.has_new_lines()};
}

bool TrainingLoop::is_validation_due(int64_t step) const {
  return validation_ && step > 0 && (is_validation_wanted(step) || step == settings_.pause_after);
}

/// By the recipe, wherever the run pauses.
bool TrainingLoop::is_validation_wanted(int64_t step) const {
  const int64_t interval = settings_.validation_interval;
  return step == settings_.steps || (interval > 0 && step % interval == 0);
}

/// Whether an evaluation decides on the best weights, an early stop or the learning rate. Where weights are
/// still to be pruned, or will be rounded, it is one of another network.
bool TrainingLoop::is_decisive(int64_t step) const {
  const bool is_final =
      (!settings_.pruning || step >= settings_.pruning->end) && step >= settings_.rounds_from;
  return is_validation_wanted(step) && is_final;
}

/// After the last step a run is done instead.
bool TrainingLoop::is_pause_due(int64_t step) const {
  return settings_.pause_after > 0 && step >= settings_.pause_after && step < settings_.steps;
}

bool TrainingLoop::is_verification_due(int64_t step) const {
  return settings_.verify_interval > 0 && step % settings_.verify_interval == 0;
}

/// State that all ranks must have alike, once after each step. Nothing may be in flight.
void TrainingLoop::verify(int64_t step) {
  ProcessGroup& group = agreement_.group();
  if (group.size() == 1 || settings_.verify_interval == 0 || state().verified == step) return;
  require_equal_replicas(executable_, group, step);
  recorder_.set_verified(step);
}

/// If the ranks differ, nothing is saved: it would replace a correct checkpoint.
void TrainingLoop::save_now(Activity doing) {
  if (checkpoints_ == nullptr) return;
  agreement_.group().set_activity(state().step, doing);
  verify(state().step);
  checkpoints_->save_now(state());
}

/// An asynchronous device is timed only on steps that are logged.
void TrainingLoop::enqueue(int64_t step) {
  const bool logged = step == settings_.steps || step % settings_.logging_interval == 0;
  const double before = steady_seconds();
  runner_.enqueue(step, logged || !executable_.plan().is_async);
  if (following_) out_.trace->add_step(step, before, steady_seconds());
}

/// Begins to time each operation with the first step of the trace, and ends that after the last one.
void TrainingLoop::follow(int64_t step) {
  const bool wanted = out_.trace != nullptr && step <= settings_.steps && out_.trace->follows(step);
  if (wanted == following_) return;
  following_ = wanted;
  runner_.follow(wanted ? out_.trace : nullptr);
  if (wanted) {
    executable_.observe([this](const PlannedNode& node, double begin, double end) {
      out_.trace->add_node(executable_.plan(), node, begin, end);
    });
  } else {
    executable_.observe({});
    out_.trace->write(agreement_.group());
  }
}

/// Judges the oldest steps until no more than `left` are in flight.
void TrainingLoop::collect(int64_t left) {
  while (runner_.in_flight() > left) {
    const StepResult result = runner_.take();
    decided_ = decided_ | result.decided;
    if (going_back_) continue;  // results after the step that is undone
    recorder_.add(result);
    judge(result.report);
  }
}

/// A failure on this rank ends all of them.
template <class Work>
void TrainingLoop::attempt(const Work& work) try {
  work();
} catch (...) {
  agreement_.fail(std::current_exception());
}

/// Carries out the guard's decision. The first non-finite value is searched for when the run stops, and once
/// if it continues.
void TrainingLoop::judge(const StepReport& step) {
  GuardDecision decision = guard_.judge(step);
  const bool stops = decision.what != GuardDecision::What::go_on;
  if (decision.nonfinite && (stops || !(searched_ || following_))) {
    decision.text += "; first non-finite value: " + runner_.find_non_finite(step.step);
    searched_ = true;
  }
  if (decision.what == GuardDecision::What::roll_back && checkpoints_ != nullptr) {
    going_back_ = decision;
    return;
  }
  recorder_.add_decision(decision, step, guard_.state());
  if (stops) throw Error(ExitCode::internal, decision.text);
}

/// Returns to the newest checkpoint; the steps that led here are then skipped.
void TrainingLoop::roll_back() {
  const std::optional<LoopState> there = checkpoints_->restore();
  if (!there) throw Error(ExitCode::internal, going_back_->text + "; but there is no checkpoint yet");
  skip_steps(executable_, guard_.rolled_back(there->step, there->guard));
  runner_.start_at(there->step + 1);
  recorder_.go_back(*there, *going_back_, guard_.state());
  set_learning_rate_factor();
  going_back_.reset();
  prune(&TimeShares::starting);
}

/// Of a schedule that follows a metric. Between steps only.
void TrainingLoop::set_learning_rate_factor() {
  if (!settings_.plateau) return;
  const double factor = state().plateau.value_or(PlateauState{}).factor;
  executable_.write(executable_.tensor(state_name::kLearningRateFactor),
                    std::vector<float>{static_cast<float>(factor)});
}

/// Takes out the weights that are to be taken out by now; none if that is done already. The time is not the
/// next step's. Between steps only.
void TrainingLoop::prune(double TimeShares::*part) {
  if (!masks_) return;
  recorder_.note_pruned(masks_->update(state().step));
  recorder_.resume_clock(part);
}

/// False if the run should stop before the end.
bool TrainingLoop::evaluate() {
  agreement_.group().set_activity(state().step, Activity::evaluating);
  const auto values = validation_->run(agreement_);
  if (!values) {
    recorder_.resume_clock(&TimeShares::evaluating);
    return false;
  }
  recorder_.add_evaluation(*values, is_decisive(state().step));
  set_learning_rate_factor();
  if (out_.on_evaluation) out_.on_evaluation(state().step, *validation_);
  return true;
}

}  // namespace trainer
