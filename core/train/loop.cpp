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
      train_(train),
      validation_(validation),
      settings_(std::move(settings)),
      out_(output),
      images_(executable.tensor("images")),
      labels_(executable.tensor("labels")),
      weights_(executable.tensor("weights")),
      sample_index_(executable.tensor("sample_index")),
      other_labels_(executable.tensor("other_labels")),
      shares_(executable.tensor("shares")) {
  if (settings_.micro_batches == 1) {
    first_ = executable.entry("train_step");
  } else {
    first_ = executable.entry("accumulate_first");
    next_ = executable.entry("accumulate_next");
    update_ = executable.entry("update");
  }
  evaluate_ = executable.entry("evaluate");
  if (settings_.averages) evaluate_averages_ = executable.entry("evaluate_averages");
}

LoopResult TrainingLoop::run() {
  for (int64_t step = 1; step <= settings_.steps; ++step) {
    follow(step);
    const double before = now();
    const double loss = this->step();
    const double seconds = now() - before;
    if (following_) out_.trace->add_step(step, before, before + seconds);
    if (step == 1) result_.first_step_seconds = seconds_since_process_start();
    finish_step(step, loss, seconds);
    const bool last = step == settings_.steps;
    if (last || step % settings_.logging_interval == 0) write_interval(step);
    const bool due = settings_.validation_interval > 0 && step % settings_.validation_interval == 0;
    if (validation_ != nullptr && (last || due)) evaluate(step);
  }
  follow(settings_.steps + 1);
  out_.progress.finish();
  return result_;
}

/// Begins to time each operation with the first step of the trace, and ends that after the last one.
void TrainingLoop::follow(int64_t step) {
  const bool wanted = out_.trace != nullptr && step <= settings_.steps && out_.trace->follows(step);
  if (wanted == following_) return;
  following_ = wanted;
  if (wanted) {
    executable_.observe([trace = out_.trace](const PlannedNode& node, double begin, double end) {
      trace->add_node(node, begin, end);
    });
  } else {
    executable_.observe({});
    out_.trace->write();
  }
}

/// One global batch: its loss, the mean over its samples.
double TrainingLoop::step() {
  double loss = 0;
  for (int64_t i = 0; i < settings_.micro_batches; ++i) {
    const double before = now();
    const Batch& batch = train_.next();
    const double after = now();
    interval_.data_wait += after - before;
    if (following_) out_.trace->add_data_wait(before, after);
    loss += run_micro_batch(i == 0 ? first_ : next_, batch);
  }
  if (settings_.micro_batches > 1) interval_.phases.add(executable_.run(update_));
  return loss;
}

double TrainingLoop::run_micro_batch(size_t entry, const Batch& batch) {
  bind(batch);
  interval_.phases.add(executable_.run(entry));
  return executable_.scalar(entry, "loss");
}

void TrainingLoop::bind(const Batch& batch) {
  executable_.bind(images_, batch.images);
  executable_.bind(labels_, batch.labels);
  executable_.bind(weights_, batch.weights);
  executable_.bind(sample_index_, batch.sample_index);
  if (other_labels_ == kNone) return;
  executable_.bind(other_labels_, batch.other_labels);
  executable_.bind(shares_, batch.shares);
}

void TrainingLoop::finish_step(int64_t step, double loss, double seconds) {
  out_.unreadable.report();
  ++interval_.steps;
  interval_.loss += loss;
  interval_.seconds += seconds;
  result_.training_seconds += seconds;
  if (!std::isfinite(loss)) {
    throw Error(
        ExitCode::internal,
        fmt::format("the loss became {} at step {}; lower optimizer.lr, lengthen lr_scheduler.warmup or set "
                    "optimizer.clip_norm",
                    loss, step));
  }
  if (out_.progress.due()) show(step, loss);
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
  auto milliseconds = [&](double seconds) { return seconds / steps * 1e3; };
  const size_t updating = settings_.micro_batches > 1 ? update_ : first_;
  result_.train_loss = interval_.loss / steps;
  MetricsRecord record{.step = step, .updates = step, .epoch = epoch_of(step), .split = "train"};
  record.loss = result_.train_loss;
  record.lr = executable_.scalar(updating, "lr");
  record.samples_per_s = steps * static_cast<double>(settings_.global_batch_size) / interval_.seconds;
  record.data_wait_ms = milliseconds(interval_.data_wait);
  record.forward_ms = milliseconds(interval_.phases[Phase::forward]);
  record.backward_ms = milliseconds(interval_.phases[Phase::backward]);
  record.update_ms = milliseconds(interval_.phases[Phase::update]);
  record.memory_bytes = resident_bytes();
  out_.metrics.append(record);
  interval_ = {};
}

void TrainingLoop::add_evaluation(size_t entry, const std::string& prefix,
                                  std::map<std::string, double>& sums) {
  executable_.run(entry);
  sums[prefix + "loss"] += executable_.scalar(entry, "loss");
  for (const std::string& name : settings_.metrics) sums[prefix + name] += executable_.scalar(entry, name);
}

std::map<std::string, double> TrainingLoop::evaluation_means() {
  std::map<std::string, double> sums;
  validation_->restart();
  for (int64_t left = validation_->remaining(); left > 0; --left) {
    bind(validation_->next());
    add_evaluation(evaluate_, "", sums);
    if (settings_.averages) add_evaluation(evaluate_averages_, kAveraged, sums);
  }
  for (auto& [name, sum] : sums) sum /= static_cast<double>(settings_.validation_samples);
  return sums;
}

void TrainingLoop::evaluate(int64_t step) {
  result_.last = evaluation_means();
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
}

}  // namespace trainer
