// SPDX-License-Identifier: Apache-2.0
#include "core/train/step_runner.h"

#include <algorithm>
#include <utility>

#include "core/graph/names.h"
#include "core/host/process.h"
#include "core/train/non_finite.h"

namespace trainer {

StepRunner::StepRunner(Executable& executable, DataPipeline& data, int64_t micro_batches,
                       Agreement& agreement)
    : executable_(executable),
      feed_(executable, data),
      micro_batches_(micro_batches),
      agreement_(agreement),
      first_(executable.entry(micro_batches == 1 ? entry_name::kTrainStep : entry_name::kAccumulateFirst)),
      first_outputs_(executable, first_, kMaxInFlight) {
  steps_.reserve(kMaxInFlight);
  if (micro_batches > 1) {
    next_ = executable.entry(entry_name::kAccumulateNext);
    update_ = executable.entry(entry_name::kUpdate);
    next_outputs_.emplace(executable, next_, kMaxInFlight * (micro_batches - 1));
    update_outputs_.emplace(executable, update_, kMaxInFlight);
  }
  reader_.emplace((update_outputs_ ? *update_outputs_ : first_outputs_).names());
}

void StepRunner::start_at(int64_t step) {
  feed_.pipeline().restart((step - 1) * micro_batches_);
  last_enqueued_ = step - 1;
}

std::string StepRunner::find_non_finite(int64_t step) {
  Device& device = executable_.device();
  device.synchronize(device.record_event());  // batches on their way must not be made anew
  const int64_t next = last_enqueued_ + 1;
  start_at(step);
  bool is_bound = false;
  const auto leave = [&] {
    if (is_bound) feed_.done();
    start_at(next);
  };
  try {
    std::string found = trainer::find_non_finite(executable_, micro_batches_, [&] {
      if (is_bound) feed_.done();
      is_bound = false;
      feed_.next();
      is_bound = true;
    });
    leave();
    return found;
  } catch (...) {
    leave();
    throw;
  }
}

bool StepRunner::await_data(const std::function<bool()>& give_up) {
  feed_.make_room();
  const double before = steady_seconds();
  const bool there = feed_.await(give_up);
  waited_ += steady_seconds() - before;
  return there;
}

void StepRunner::enqueue(int64_t step, bool timed) {
  last_enqueued_ = step;
  const std::optional<size_t> stopwatch = timed ? std::optional(free_stopwatch()) : std::nullopt;
  InFlight& enqueued = steps_.emplace_back(InFlight{.step = step, .stopwatch = stopwatch});
  double idle = 0;
  const double began = steady_seconds();
  for (int64_t i = 0; i < micro_batches_; ++i) {
    const double asked = steady_seconds();
    feed_.make_room();  // waits for the device, not for data
    const double before = steady_seconds();
    next_batch();
    const double after = steady_seconds();
    const double waited = std::exchange(waited_, 0);
    enqueued.data_wait += after - before + waited;
    idle += after - asked;
    if (trace_ != nullptr) trace_->add_data_wait(before - waited, after);
    if (micro_batches_ == 1) agreement_.vote();
    run(i == 0 ? first_ : next_, enqueued);
    outputs_of_batch(i).ask();
    feed_.done();
  }
  if (micro_batches_ > 1) {
    agreement_.vote();
    run(update_, enqueued);
    update_outputs_->ask();
  }
  enqueued.host = steady_seconds() - began - idle;
}

size_t StepRunner::free_stopwatch() const {
  size_t free = 0;
  const auto is_taken = [&](const InFlight& step) { return step.stopwatch == free; };
  while (std::any_of(steps_.begin(), steps_.end(), is_taken)) ++free;
  return free;
}

/// The other ranks count on this step: without data of its own a rank enqueues it with zeros, and its vote
/// says so.
void StepRunner::next_batch() {
  std::exception_ptr failure;
  feed_.next(&failure);
  if (failure != nullptr) agreement_.fail(failure);
}

void StepRunner::run(size_t entry, InFlight& step) {
  executable_.run(entry, step.stopwatch);
  if (!step.stopwatch || executable_.plan().is_async) return;
  if (!step.phases) step.phases.emplace();
  step.phases->add(executable_.phases(entry, *step.stopwatch));
}

/// The loss is a sum over the micro-batches; all else is of the update.
StepResult StepRunner::take() {
  const InFlight oldest = steps_.front();
  StepResult result{.report = {.step = oldest.step}, .data_wait = oldest.data_wait, .host = oldest.host};
  double loss = 0;
  for (int64_t i = 0; i < micro_batches_; ++i) {
    Outputs& outputs = outputs_of_batch(i);
    const std::vector<double>& values = outputs.take();
    loss += values[outputs.index(output_name::kLoss)];
    if (micro_batches_ == 1) reader_->read(values, result.report);
  }
  if (update_outputs_) reader_->read(update_outputs_->take(), result.report);
  result.report.loss = loss;
  if (oldest.stopwatch) result.phases = oldest.phases ? oldest.phases : phases_later(*oldest.stopwatch);
  steps_.erase(steps_.begin());
  result.decided = agreement_.result();
  return result;
}

/// Of a step whose micro-batches were timed one over the other: the last stands for all but the first.
PhaseSeconds StepRunner::phases_later(size_t stopwatch) const {
  PhaseSeconds phases = executable_.phases(first_, stopwatch);
  if (micro_batches_ == 1) return phases;
  for (int64_t i = 1; i < micro_batches_; ++i) phases.add(executable_.phases(next_, stopwatch));
  phases.add(executable_.phases(update_, stopwatch));
  return phases;
}

}  // namespace trainer
