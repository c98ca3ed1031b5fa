// SPDX-License-Identifier: Apache-2.0
#include "core/tune/step_speed.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/graph/operation.h"
#include "core/host/process.h"
#include "core/train/device_watch.h"
#include "core/tune/short_training.h"

namespace trainer {
namespace {

/// Libraries do their one-time work in the first steps, and a device captures its graph.
constexpr int64_t kWarmUpSteps = 2;
constexpr size_t kLeastSteps = 3;

bool has_batch_statistics(const Program& program) {
  return std::ranges::any_of(program.entries.front().nodes,
                             [](const Node& node) { return node.op->has_batch_statistics(); });
}

/// The host's memory of a save, which the plan counts too.
void copy_state(ShortTraining& training) {
  if (Checkpoints::memory_bytes(training.job().plan, training.job().checkpoints) == 0) return;
  StateImage(training.executable()).take();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

StepSpeed median_speed(const std::vector<StepSpeed>& measured) {
  std::vector<double> seconds, joules;
  StepSpeed speed = measured.at(0);
  speed.steps = 0;
  for (const StepSpeed& each : measured) {
    seconds.push_back(each.seconds);
    if (each.joules) joules.push_back(*each.joules);
    speed.peak_bytes = std::max(speed.peak_bytes, each.peak_bytes);
    speed.steps += each.steps;
  }
  speed.seconds = median(std::move(seconds));
  if (!joules.empty()) speed.joules = median(std::move(joules));
  return speed;
}

int64_t smallest_fast(const std::vector<StepSpeed>& speeds) {
  constexpr double kTolerance = 1.05;
  const double fastest = std::ranges::min(speeds, {}, &StepSpeed::seconds).seconds;
  int64_t smallest = std::numeric_limits<int64_t>::max();
  for (const StepSpeed& speed : speeds) {
    if (speed.seconds <= kTolerance * fastest) smallest = std::min(smallest, speed.micro_batch);
  }
  return smallest;
}

StepSpeed measure_steps(const std::shared_ptr<const Recipe>& recipe, double seconds,
                        const OpenDevice& open_device, const StopSignals& signals, Log& log) {
  ShortTraining training(recipe, {}, open_device, log);
  training.train(kWarmUpSteps, signals, [](const StepResult&) { return false; });
  const Device& device = training.executable().device();
  DeviceWatch watch;
  const double begin = steady_seconds();
  watch.note(device.read_device(), begin);
  std::vector<double> times;
  double since = begin;
  training.train(std::numeric_limits<int64_t>::max(), signals, [&](const StepResult&) {
    const double now = steady_seconds();
    times.push_back(now - since);
    since = now;
    return now - begin >= seconds && times.size() >= kLeastSteps;
  });
  watch.note(device.read_device(), since);
  copy_state(training);
  const Job& job = training.job();
  StepSpeed speed{.micro_batch = job.spec.batch().micro_batch,
                  .samples = job.spec.batch().global_batch,
                  .steps = std::ssize(times),
                  .seconds = median(times),
                  .planned_bytes = job.memory.total(),
                  .peak_bytes = peak_resident_bytes(),
                  .has_batch_statistics = has_batch_statistics(job.program)};
  if (job.plan.is_async) speed.peak_bytes = static_cast<int64_t>(watch.most_memory_bytes());
  if (watch.joules() > 0) speed.joules = watch.joules() / static_cast<double>(speed.samples * speed.steps);
  return speed;
}

}  // namespace trainer
