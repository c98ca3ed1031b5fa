// SPDX-License-Identifier: Apache-2.0
#include "core/train/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/graph/names.h"
#include "core/host/process.h"

namespace trainer {
namespace {

/// Skipped steps counted by the program.
int64_t counted_skips(const Executable& executable) {
  int64_t count = 0;
  for (const char* name : {state_name::kOverflows, state_name::kGuardSkipped}) {
    const TensorId id = executable.tensor(name);
    if (id != kNone) count += executable.read<int32_t>(id).front();
  }
  return count;
}

/// Updates the best values so far with those that are better than all before.
void keep_best(const std::vector<Metric>& metrics, const std::map<std::string, double>& values,
               std::map<std::string, double>& best) {
  for (const Metric& metric : metrics) {
    const double value = values.at(metric.name);
    const auto [so_far, is_first] = best.emplace(metric.name, value);
    if (!is_first && is_better(metric.direction, value, so_far->second)) so_far->second = value;
  }
}

}  // namespace

Recorder::Recorder(const Executable& executable, ProcessGroup& group, LoopSettings settings,
                   LoopOutput output)
    : executable_(executable), group_(group), settings_(std::move(settings)), out_(std::move(output)) {}

void Recorder::start(const LoopState& state) {
  state_ = state;
  state_.unreadable = out_.unreadable.numbers();
  first_step_ = state.step + 1;
  uncounted_skips_ = state.step - state.updates - counted_skips(executable_);
  watch_.note(executable_.device().read_device(), steady_seconds());
  since_ = steady_seconds();
  waited_before_ = group_.seconds_waited();
  time_.starting = seconds_since_process_start();
}

/// Steps so far that changed nothing, whichever guards the run had then.
std::optional<int64_t> Recorder::skipped(const StepReport& step) const {
  if (!step.skipped() && uncounted_skips_ == 0) return std::nullopt;
  return step.skipped().value_or(0) + uncounted_skips_;
}

void Recorder::resume_clock(double TimeShares::*part) {
  const double now = steady_seconds(), waited = group_.seconds_waited() - waited_before_;
  time_.*part += now - since_ - waited;
  time_.ranks += waited;
  since_ = now;
  waited_before_ = group_.seconds_waited();
}

TimeShares Recorder::time() const {
  TimeShares time = time_;
  time.computing = std::max(0.0, time_.computing - time_.stolen);
  return time;
}

void Recorder::add(const StepResult& result) {
  const StepReport& step = result.report;
  state_.step = step.step;
  state_.updates = step.step - skipped(step).value_or(0);
  const bool is_refused = !std::isfinite(step.loss) || step.reason() != SkipReason::none;
  if (!step.skipped() && is_refused) --state_.updates;  // the run ends
  if (step.loss_scale) state_.loss_scale = step.loss_scale;
  if (step.reason() == SkipReason::none) {
    ++state_.interval_steps;
    state_.interval_loss += step.loss;
  }
  if (step.step == first_step_ && result_.first_step_seconds == 0)
    result_.first_step_seconds = seconds_since_process_start();
  if (out_.on_step) out_.on_step(state_.step);
  note_unreadable();
  const double until = steady_seconds();
  ++interval_.steps;
  const double step_seconds = until - since_;
  interval_.seconds += step_seconds;
  result_.training_seconds += step_seconds;
  since_ = until;
  const double waited = group_.seconds_waited() - waited_before_;
  interval_.waited += waited;
  waited_before_ = group_.seconds_waited();
  interval_.data_wait += result.data_wait;
  // Of this time, not of this step: others are in flight.
  const double for_data = result.data_waited - data_waited_before_;
  data_waited_before_ = result.data_waited;
  time_.data += for_data;
  time_.ranks += waited;
  time_.computing += step_seconds - for_data - waited;
  interval_.host += result.host;
  if (result.phases) {
    ++interval_.timed_steps;
    interval_.phases.add(*result.phases);
  }
  last_ = step;
  if (out_.progress.due()) show(step.loss);
  if (step.step == settings_.steps || step.step % settings_.logging_interval == 0) write_interval(step);
}

/// Before a save, so that a run resumed from it continues the count.
void Recorder::note_unreadable() {
  if (out_.unreadable.report()) state_.unreadable = out_.unreadable.numbers();
}

void Recorder::share_unreadable(ProcessGroup& group) {
  out_.unreadable.share(group);
  state_.unreadable = out_.unreadable.numbers();
}

void Recorder::show(double loss) {
  const double samples = static_cast<double>(interval_.steps * settings_.batch.global_batch);
  ProgressState shown{
      .step = state_.step,
      .steps = settings_.steps,
      .epoch = static_cast<int64_t>(std::ceil(epoch())),
      .epochs = settings_.epochs,
      .loss = loss,
      .samples_per_s = samples / interval_.seconds,
      .tokens_per_s = samples * static_cast<double>(settings_.tokens_of_sample) / interval_.seconds,
      .data_wait = interval_.data_wait / interval_.seconds,
      .lr = last_.lr};
  const std::string metric = settings_.best_metric.value_or("");
  const auto last = state_.last.find(metric), best = state_.best.find(metric);
  if (last != state_.last.end() && best != state_.best.end()) {
    shown.metric = metric == output_name::kLoss ? "val" : metric;
    shown.last = last->second, shown.best = best->second;
  }
  out_.progress.update(shown);
}

double Recorder::epoch() const {
  return static_cast<double>(state_.step * settings_.batch.global_batch) /
         static_cast<double>(settings_.samples_per_epoch);
}

void Recorder::write_interval(const StepReport& step) {
  const auto steps = static_cast<double>(interval_.steps);
  auto phase_ms = [&](Phase phase) {
    return interval_.phases[phase] / static_cast<double>(interval_.timed_steps) * 1e3;
  };
  state_.train_loss = state_.interval_loss / static_cast<double>(state_.interval_steps);
  state_.interval_loss = 0;
  state_.interval_steps = 0;
  MetricsRecord record{.step = state_.step, .updates = state_.updates, .epoch = epoch(), .split = "train"};
  record.loss = state_.train_loss;
  record.lr = step.lr;
  record.grad_norm = step.grad_norm;
  record.samples_per_s = steps * static_cast<double>(settings_.batch.global_batch) / interval_.seconds;
  if (settings_.tokens_of_sample > 0)
    record.tokens_per_s = *record.samples_per_s * static_cast<double>(settings_.tokens_of_sample);
  const double per_second = steps / interval_.seconds;
  if (settings_.step_flops > 0) record.metrics.emplace_back("flops_per_s", per_second * settings_.step_flops);
  if (settings_.arithmetic_seconds > 0)
    record.metrics.emplace_back("flops_share", per_second * settings_.arithmetic_seconds);
  record.data_wait_ms = interval_.data_wait / steps * 1e3;
  if (interval_.timed_steps > 0) {
    record.forward_ms = phase_ms(Phase::forward);
    record.backward_ms = phase_ms(Phase::backward);
    record.update_ms = phase_ms(Phase::update);
  }
  record.memory_bytes = resident_bytes();
  if (executable_.plan().is_async) record.metrics.emplace_back("host_ms", interval_.host / steps * 1e3);
  note_device(record);
  for (const auto& number : trainer::numbers_of(time() - told_)) record.metrics.push_back(number);
  told_ = time();
  note_ranks(record);
  if (pruned_) record.metrics.emplace_back("pruned_share", *pruned_);
  record.loss_scale = step.loss_scale;
  record.skipped = skipped(step);
  out_.metrics.append(record);
  warn_if_input_bound();
  interval_ = {};
}

/// What others stole is a share of what was taken for computing. The last share counts until there is a new
/// one.
void Recorder::note_device(MetricsRecord& record) {
  const DeviceReading reading = executable_.device().read_device();
  stolen_share_ = reading.stolen.value_or(stolen_share_);
  time_.stolen += stolen_share_ * std::max(0.0, time_.computing - judged_);
  judged_ = time_.computing;
  for (const auto& number : watch_.note(reading, steady_seconds())) record.metrics.push_back(number);
  for (const std::string& warning : watch_.warnings()) out_.log.warn(warning);
}

void Recorder::note_ranks(MetricsRecord& record) {
  const double ms = 1e3 / static_cast<double>(interval_.steps);
  const double joules = watch_.joules() / static_cast<double>(settings_.energy_readers);
  const std::vector<RankTimes> ranks = times_of_ranks(group_, {.step = ms * interval_.seconds,
                                                               .data_wait = ms * interval_.data_wait,
                                                               .waited = ms * interval_.waited,
                                                               .joules = joules - told_joules_});
  told_joules_ = joules;
  for (const auto& number : trainer::numbers_of(ranks)) record.metrics.push_back(number);
  ranks_.add(ranks, interval_.steps);
}

/// Reports once that the device waits for data, for an interval long enough to judge.
void Recorder::warn_if_input_bound() {
  constexpr double kShare = 0.1, kLeastSeconds = 1;
  const double share = interval_.data_wait / interval_.seconds;
  if (warned_ || interval_.seconds < kLeastSeconds || share < kShare) return;
  warned_ = true;
  const std::string workers =
      settings_.data_workers < settings_.cores
          ? fmt::format("raise data.workers above {}, or", settings_.data_workers)
          : fmt::format("all of the {} cores have a worker, so use smaller images, or", settings_.cores);
  out_.log.warn(
      fmt::format("input-bound: {:.0f} % of the time is spent waiting for data; {} pack the samples "
                  "(`trainer data pack`)",
                  100 * share, workers));
}

void Recorder::note_pruned(double share) {
  if (share > pruned_.value_or(0) && state_.step == settings_.pruning->end) {
    out_.log.info(fmt::format("step {}: {:.1f} % of the weights to be pruned are zero, and stay so",
                              state_.step, 100 * share));
  }
  pruned_ = share;
}

void Recorder::add_decision(const GuardDecision& decision, const StepReport& step, const GuardState& guard) {
  state_.guard = guard;
  if (decision.event.empty()) return;
  MetricsRecord record{.step = state_.step, .updates = state_.updates, .epoch = epoch(), .split = "guard"};
  record.loss = step.loss;
  if (step.reason() == SkipReason::gradient_spike) record.grad_norm = step.grad_norm;
  record.skipped = state_.step - state_.updates;
  record.event = decision.event;
  record.reason = decision.reason;
  record.in_a_row = step.guard_in_a_row.value_or(0);
  out_.metrics.append(record);
  if (decision.what != GuardDecision::What::stop) out_.log.warn(decision.text);
}

/// The decision belongs to the first step after the checkpoint: a run resumed from a later one finds it among
/// the lines so far.
void Recorder::go_back(const LoopState& state, const GuardDecision& decision, const GuardState& guard) {
  const int64_t failed = state_.step;
  state_ = state;
  state_.guard = guard;
  state_.unreadable = out_.unreadable.numbers();
  interval_ = {};
  out_.metrics.cut(state.step, state.validated);
  MetricsRecord record{.step = state.step + 1, .updates = state.updates, .epoch = epoch(), .split = "guard"};
  record.loss = state.train_loss;
  record.metrics = {{"failed_step", failed}};
  record.event = decision.event;
  record.reason = decision.reason;
  out_.metrics.append(record);
  out_.log.warn(decision.text);
  out_.log.warn(fmt::format("resuming after step {}", state.step));
  resume_clock(&TimeShares::starting);
}

void Recorder::add_evaluation(const std::map<std::string, double>& values, bool decides) {
  state_.last = values;
  state_.validated = state_.step;
  note_unreadable();
  MetricsRecord record{
      .step = state_.step, .updates = state_.updates, .epoch = epoch(), .split = "validation"};
  record.loss = values.at(output_name::kLoss);
  if (!decides) record.event = kUndecided;
  for (const std::string& name : validation_metrics(settings_))
    record.metrics.emplace_back(name, values.at(name));
  if (decides) keep_best(settings_.metrics, values, state_.best);
  const bool is_new_best = decides && follow_best(values);
  record.memory_bytes = resident_bytes();
  out_.metrics.append(record);
  out_.log.info(validation_line(values) + (is_new_best ? "  best" : ""));
  if (decides) follow_metrics(values);
  resume_clock(&TimeShares::evaluating);
}

/// "step  54 epoch 1.50: validation loss 0.3807 top1 0.8621", in columns with the run's other lines.
std::string Recorder::validation_line(const std::map<std::string, double>& values) {
  const int64_t batch = settings_.batch.global_batch, samples = settings_.samples_per_epoch;
  const bool has_parts =
      settings_.validation_interval * batch % samples != 0 || settings_.steps * batch % samples != 0;
  const int digits = has_parts ? 2 : 0;
  const double last = static_cast<double>(settings_.steps * batch) / static_cast<double>(samples);
  std::string text = fmt::format("step {:>{}} epoch {:>{}.{}f}: validation", state_.step,
                                 fmt::formatted_size("{}", settings_.steps), epoch(),
                                 fmt::formatted_size("{:.{}f}", last, digits), digits);
  std::vector<std::string> names = validation_metrics(settings_);
  names.insert(names.begin(), output_name::kLoss);
  for (const std::string& name : names) {
    const std::string value = fmt::format("{:.4f}", values.at(name));
    size_t& width = widths_[name];
    width = std::max(width, value.size());
    text += fmt::format(" {} {:>{}}", name, value, width);
  }
  return text;
}

/// Whether an evaluation is the best so far. The first of several equal values stays the best. NaN and
/// infinity never are.
bool Recorder::follow_best(const std::map<std::string, double>& values) {
  if (!settings_.best_metric) return false;
  const std::string& metric = *settings_.best_metric;
  const double value = values.at(metric);
  if (!std::isfinite(value)) return false;
  const bool is_first = !state_.kept || state_.kept->metric != metric;
  if (!is_first && !is_better(direction_in(settings_, metric), value, state_.kept->value)) return false;
  state_.kept = {.metric = metric, .value = value, .step = state_.step};
  return true;
}

/// The consequences of an evaluation for early stopping and the schedule.
void Recorder::follow_metrics(const std::map<std::string, double>& values) {
  if (const auto& how = settings_.early_stop) {
    state_.early_stop =
        after_evaluation(*how, direction_in(settings_, how->metric),
                         state_.early_stop.value_or(EarlyStopState{}), state_.step, values.at(how->metric));
  }
  if (const auto& how = settings_.plateau) {
    const PlateauState before = state_.plateau.value_or(PlateauState{});
    state_.plateau =
        after_evaluation(*how, direction_in(settings_, how->metric), before, values.at(how->metric));
    if (state_.plateau->factor != before.factor) {
      out_.log.info(
          fmt::format("step {}: validation {} no longer improves; learning rate times {:.4g} from here",
                      state_.step, how->metric, state_.plateau->factor));
    }
  }
}

bool Recorder::stops_early() const {
  return settings_.early_stop && state_.early_stop && state_.step < settings_.steps &&
         state_.early_stop->metric == settings_.early_stop->metric &&
         state_.early_stop->stops(*settings_.early_stop);
}

void Recorder::stop_early() {
  if (interval_.steps > 0 && state_.interval_steps > 0) write_interval(last_);
  out_.log.info(fmt::format("early stop after step {} of {}: {}", state_.step, settings_.steps,
                            early_stop_text(*settings_.early_stop, *state_.early_stop)));
}

LoopResult Recorder::finish() {
  const int64_t samples = (state_.step + 1 - first_step_) * settings_.batch.global_batch;
  const double joules = group_.size() > 1 ? ranks_.joules() : watch_.joules();
  result_.joules_per_sample = joules / static_cast<double>(std::max<int64_t>(1, samples));
  result_.device_memory_bytes = watch_.most_memory_bytes();
  result_.throttling = watch_.throttling();
  resume_clock(&TimeShares::saving);
  result_.time = time();
  result_.facts.cores = settings_.cores;
  result_.facts.waited = ranks_.waited();
  result_.facts.slowest = ranks_.slowest();
  result_.facts.batches = (state_.step + 1 - first_step_) * settings_.batch.micro_batches();
  out_.progress.finish();
  return result_;
}

}  // namespace trainer
