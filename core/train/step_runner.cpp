// SPDX-License-Identifier: Apache-2.0
#include "core/train/step_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/engine/group_operations.h"
#include "core/graph/names.h"
#include "core/host/process.h"
#include "core/train/non_finite.h"

namespace trainer {

namespace {

/// With which a step begins.
const char* first_entry(const Plan& plan, int64_t micro_batches) {
  if (plan.has_entry(entry_name::kTrainStep)) return entry_name::kTrainStep;
  return micro_batches == 1 ? entry_name::kAccumulateOnly : entry_name::kAccumulateFirst;
}

}  // namespace

StepRunner::StepRunner(Executable& executable, DataPipeline& data, int64_t micro_batches,
                       Agreement& agreement)
    : executable_(executable), feed_(executable, data), micro_batches_(micro_batches), agreement_(agreement) {
  steps_.reserve(kMaxInFlight);
  const auto open = [&](std::optional<Batches>& batches, const char* name, int64_t in_step) {
    const size_t entry = executable.entry(name);
    batches.emplace(Batches{entry, Outputs(executable, entry, kMaxInFlight * in_step)});
  };
  const Plan& plan = executable.plan();
  open(first_, first_entry(plan, micro_batches), 1);
  if (micro_batches > 1) {
    const bool has_last = plan.has_entry(entry_name::kAccumulateLast);
    if (has_last) open(last_, entry_name::kAccumulateLast, 1);
    if (const int64_t others = micro_batches - (has_last ? 2 : 1); others > 0)
      open(next_, entry_name::kAccumulateNext, others);
  }
  if (plan.has_entry(entry_name::kUpdate)) open(update_, entry_name::kUpdate, 1);
  reader_.emplace((update_ ? *update_ : *first_).outputs.names());
}

StepRunner::Batches& StepRunner::of_batch(int64_t i) {
  if (i == 0) return *first_;
  return last_ && i == micro_batches_ - 1 ? *last_ : *next_;
}

void StepRunner::start_at(int64_t step) {
  feed_.pipeline().restart((step - 1) * micro_batches_);
  last_enqueued_ = step - 1;
}

std::string StepRunner::find_non_finite(int64_t step) {
  ProcessGroup& group = agreement_.group();
  std::optional<std::string> own;
  group.skip_collectives(true);
  try {
    own = search(step);
  } catch (const std::exception& problem) {
    own = "the search failed: " + failure_of(problem).text;
  }
  group.skip_collectives(false);
  const std::optional<RankText> found = first_text(group, own);
  if (!found) return "it did not occur again when the step was repeated";
  return found->text + (group.size() > 1 ? fmt::format(", on rank {}", found->rank) : "");
}

std::optional<std::string> StepRunner::search(int64_t step) {
  Device& device = executable_.device();
  device.synchronize(device.record_event());  // batches in flight must not be made again
  const int64_t next = last_enqueued_ + 1;
  start_at(step);
  bool is_bound = false;
  const auto leave = [&] {
    if (is_bound) feed_.done();
    start_at(next);
  };
  try {
    std::optional<std::string> found = trainer::find_non_finite(executable_, micro_batches_, [&] {
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

/// Waits for a free slot in device memory for a step's batch. On the device, its previous step may wait for
/// other ranks, whose hosts have enqueued it once their votes have arrived. So those votes are awaited first,
/// and this rank reports that it waits.
void StepRunner::make_room(int64_t step, int64_t batch) {
  const int64_t kept = InputFeed::kept(executable_.plan());
  const int64_t done = ((step - 1) * micro_batches_ + batch + 1 - kept) / micro_batches_;  // steps by then
  for (InFlight& each : steps_) {
    if (each.step <= done && !each.decided) each.decided = agreement_.result();
  }
  feed_.make_room();
}

bool StepRunner::await_data(const std::function<bool()>& give_up) {
  agreement_.group().set_activity(last_enqueued_ + 1, Activity::awaiting_data);
  make_room(last_enqueued_ + 1, 0);
  const double before = steady_seconds();
  const bool there = feed_.await(give_up);
  const double waited = steady_seconds() - before;
  waited_ += waited;
  data_waited_ += waited;
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
    make_room(step, i);  // waits for the device, not for data
    const double before = steady_seconds();
    next_batch();
    const double after = steady_seconds();
    const double waited = std::exchange(waited_, 0);
    enqueued.data_wait += after - before + waited;
    data_waited_ += after - before;
    idle += after - asked;
    if (trace_ != nullptr) trace_->add_data_wait(before - waited, after);
    if (!update_) agreement_.vote();
    run(of_batch(i).entry, enqueued);
    of_batch(i).outputs.ask();
    feed_.done();
  }
  if (update_) {
    agreement_.vote();
    run(update_->entry, enqueued);
    update_->outputs.ask();
  }
  enqueued.host = steady_seconds() - began - idle;
}

size_t StepRunner::free_stopwatch() const {
  size_t free = 0;
  const auto is_taken = [&](const InFlight& step) { return step.stopwatch == free; };
  while (std::any_of(steps_.begin(), steps_.end(), is_taken)) ++free;
  return free;
}

/// The other ranks rely on this step: a rank without data of its own enqueues it with zeros, and its vote
/// says so.
void StepRunner::next_batch() {
  std::exception_ptr failure;
  agreement_.group().set_activity(last_enqueued_, Activity::awaiting_data);
  feed_.next(&failure);
  agreement_.group().set_activity(last_enqueued_, Activity::computing);
  if (failure != nullptr) agreement_.fail(failure);
}

void StepRunner::run(size_t entry, InFlight& step) {
  executable_.run(entry, step.stopwatch);
  if (!step.stopwatch || executable_.plan().is_async) return;
  if (!step.phases) step.phases.emplace();
  step.phases->add(executable_.phases(entry, *step.stopwatch));
}

/// The loss is a sum over the micro-batches, or over the ranks; all else comes from the update, as does the
/// mean of a loss that counts. A
/// rank that waits for others waits for their votes, before it waits for the device.
StepResult StepRunner::take() {
  const InFlight oldest = steps_.front();
  StepResult result{.report = {.step = oldest.step},
                    .data_wait = oldest.data_wait,
                    .data_waited = data_waited_,
                    .host = oldest.host};
  result.decided = oldest.decided ? *oldest.decided : agreement_.result();
  double loss = 0;
  for (int64_t i = 0; i < micro_batches_; ++i) {
    Outputs& outputs = of_batch(i).outputs;
    const std::vector<double>& values = outputs.take();
    const double of_batches = values[outputs.index(output_name::kLoss)];
    loss = last_ ? of_batches : loss + of_batches;
    if (!update_) reader_->read(values, result.report);
  }
  result.report.loss = loss;
  // A loss that counts is known only when all is summed up: then the update outputs it.
  if (update_) reader_->read(update_->outputs.take(), result.report);
  if (oldest.stopwatch) result.phases = oldest.phases ? oldest.phases : phases_later(*oldest.stopwatch);
  steps_.erase(steps_.begin());
  return result;
}

/// Of a step with overlapping times of its micro-batches: the latest of an entry represents all of them.
PhaseSeconds StepRunner::phases_later(size_t stopwatch) {
  PhaseSeconds phases;
  for (int64_t i = 0; i < micro_batches_; ++i) phases.add(executable_.phases(of_batch(i).entry, stopwatch));
  if (update_) phases.add(executable_.phases(update_->entry, stopwatch));
  return phases;
}

}  // namespace trainer
