// SPDX-License-Identifier: Apache-2.0
#include "core/train/loop.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <sstream>

namespace trainer {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// From the kernel's record of when this process began, which has a resolution of 10 ms.
double seconds_since_process_start() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 1));  // the name before it may hold anything
  std::string field;
  constexpr int kStartTime = 20;  // of the fields after the name
  for (int i = 0; i < kStartTime; ++i) fields >> field;
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  const double since_boot = static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  return since_boot - std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

constexpr const char* kAveraged = "ema_";

/// Every metric but the loss is better when it is larger.
bool better(const std::string& name, double a, double b) {
  return name.ends_with("loss") ? a < b : a > b;
}

}  // namespace

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

TrainingLoop::TrainingLoop(Executable& executable, DataPipeline& train, DataPipeline* validation,
                           LoopSettings settings, LoopOutput output)
    : executable_(executable),
      settings_(std::move(settings)),
      out_(output),
      runner_(executable, train, settings_.micro_batches) {
  if (validation == nullptr) return;
  validation_.emplace(executable, *validation, settings_.validation_samples, settings_.averages);
}

LoopResult TrainingLoop::run() {
  watch_.note(executable_.backend().read_device());
  since_ = now();
  for (int64_t step = 1; step <= settings_.steps; ++step) {
    follow(step);
    put(step);
    const bool last = step == settings_.steps;
    const bool due = settings_.validation_interval > 0 && step % settings_.validation_interval == 0;
    collect(last || due);
    if (validation_ && (last || due)) evaluate(step);
  }
  result_.joules_per_sample = watch_.joules() / static_cast<double>(std::max<int64_t>(
                                                    1, settings_.steps * settings_.global_batch_size));
  result_.device_memory_bytes = watch_.most_memory_bytes();
  result_.throttling = watch_.throttling();
  follow(settings_.steps + 1);
  out_.progress.finish();
  return result_;
}

/// A device that works later is timed only now and then.
void TrainingLoop::put(int64_t step) {
  const bool logged = step == settings_.steps || step % settings_.logging_interval == 0;
  const double before = now();
  runner_.put(step, logged || !executable_.backend().works_later());
  if (following_) out_.trace->add_step(step, before, now());
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
  while (runner_.under_way() > 0 && (all || runner_.is_full() || runner_.ready()))
    finish_step(runner_.take());
}

void TrainingLoop::finish_step(const StepResult& result) {
  if (result.step == 1) result_.first_step_seconds = seconds_since_process_start();
  out_.unreadable.report();
  const double until = now();
  ++interval_.steps;
  interval_.loss += result.loss;
  interval_.seconds += until - since_;
  result_.training_seconds += until - since_;
  since_ = until;
  interval_.data_wait += result.data_wait;
  interval_.host += result.host;
  if (result.phases) {
    ++interval_.timed_steps;
    interval_.phases.add(*result.phases);
  }
  if (!std::isfinite(result.loss)) {
    throw Error(
        ExitCode::internal,
        fmt::format("the loss became {} at step {}; lower optimizer.lr, lengthen lr_scheduler.warmup or set "
                    "optimizer.clip_norm",
                    result.loss, result.step));
  }
  if (out_.progress.due()) show(result.step, result.loss);
  if (result.step == settings_.steps || result.step % settings_.logging_interval == 0)
    write_interval(result.step);
}

void TrainingLoop::show(int64_t step, double loss) {
  const double samples = static_cast<double>(interval_.steps * settings_.global_batch_size);
  out_.progress.update({.step = step,
                        .steps = settings_.steps,
                        .epoch = static_cast<int64_t>(std::ceil(epoch_of(step))),
                        .epochs = settings_.epochs,
                        .loss = loss,
                        .samples_per_s = samples / interval_.seconds,
                        .data_wait = interval_.data_wait / interval_.seconds});
}

double TrainingLoop::epoch_of(int64_t step) const {
  return static_cast<double>(step * settings_.global_batch_size) /
         static_cast<double>(settings_.samples_per_epoch);
}

void TrainingLoop::write_interval(int64_t step) {
  const auto steps = static_cast<double>(interval_.steps);
  auto phase_ms = [&](Phase phase) {
    return interval_.phases[phase] / static_cast<double>(interval_.timed_steps) * 1e3;
  };
  result_.train_loss = interval_.loss / steps;
  MetricsRecord record{.step = step, .updates = step, .epoch = epoch_of(step), .split = "train"};
  record.loss = result_.train_loss;
  record.lr = runner_.value("lr");
  record.samples_per_s = steps * static_cast<double>(settings_.global_batch_size) / interval_.seconds;
  record.data_wait_ms = interval_.data_wait / steps * 1e3;
  record.forward_ms = phase_ms(Phase::forward);
  record.backward_ms = phase_ms(Phase::backward);
  record.update_ms = phase_ms(Phase::update);
  record.memory_bytes = resident_bytes();
  if (executable_.backend().works_later())
    record.metrics.emplace_back("host_ms", interval_.host / steps * 1e3);
  for (const auto& number : watch_.note(executable_.backend().read_device()))
    record.metrics.push_back(number);
  out_.metrics.append(record);
  warn_if_input_bound();
  interval_ = {};
}

/// Says once, of an interval long enough to tell, that the device waits for data.
void TrainingLoop::warn_if_input_bound() {
  constexpr double kShare = 0.1, kLeastSeconds = 1;
  const double share = interval_.data_wait / interval_.seconds;
  if (warned_ || interval_.seconds < kLeastSeconds || share < kShare) return;
  warned_ = true;
  out_.log.warn(fmt::format(
      "input-bound: {:.0f} % of the time is spent waiting for data; raise data.workers above {}, or pack the "
      "samples (`trainer data pack`)",
      100 * share, settings_.data_workers));
}

void TrainingLoop::evaluate(int64_t step) {
  result_.last = validation_->run();
  out_.unreadable.report();
  MetricsRecord record{.step = step, .updates = step, .epoch = epoch_of(step), .split = "validation"};
  record.loss = result_.last["loss"];
  std::string text =
      fmt::format("step {} epoch {:.4g}: validation loss {:.4f}", step, epoch_of(step), record.loss);
  std::vector<std::string> names = settings_.metrics;
  if (settings_.averages) {
    names.push_back(std::string(kAveraged) + "loss");
    for (const std::string& name : settings_.metrics) names.push_back(kAveraged + name);
  }
  for (const std::string& name : names) {
    record.metrics.emplace_back(name, result_.last[name]);
    text += fmt::format(" {} {:.4f}", name, result_.last[name]);
  }
  for (const auto& [name, value] : result_.last) {
    const auto [best, first] = result_.best.emplace(name, value);
    if (!first && better(name, value, best->second)) best->second = value;
  }
  record.memory_bytes = resident_bytes();
  out_.metrics.append(record);
  out_.log.info(text);
  since_ = now();
}

}  // namespace trainer
