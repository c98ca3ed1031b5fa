// SPDX-License-Identifier: Apache-2.0
#include "core/session/link_times.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/engine/executable.h"
#include "core/engine/group_operations.h"
#include "core/graph/builder.h"
#include "core/graph/ops/all_reduce.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/unary.h"
#include "core/host/process.h"

namespace trainer {
namespace {

/// Of a sum: one that latency decides, and one that the rate decides.
constexpr int64_t kSmall = 1 << 10, kLarge = 8 << 20;  // floats
constexpr int kSmallRuns = 100, kLargeRuns = 9;
/// A product of computation beside a sum.
constexpr int64_t kRows = 256, kFeatures = 512;
/// Computation takes so many times as long as the sum beside it, which it then hides.
constexpr double kHides = 2;
constexpr double kNoise = 0.05;  ///< shares of a sum's time below it are none

constexpr const char* kQuiet = "quiet";  ///< the same without the sum
constexpr const char* kSum = "sum";

using Compute = std::function<void(Builder&)>;

/// Two entries: a pass over `floats` numbers and `compute`, with a sum of the numbers beside it and without.
Program sums_of(int64_t floats, Axis axis, const Compute& compute) {
  Program program;
  const TensorId x = program.persistent("x", {{floats}, DType::f32}, Role::state, {});
  for (const char* name : {kQuiet, kSum}) {
    Entry& entry = program.entries.emplace_back(name);
    Builder build(program, entry);
    std::vector<TensorId> values = {build.emit<Unary>({x}, elementwise::Function(elementwise::Relu{}))};
    if (entry.name == kSum) values = build.emit_all(std::make_shared<AllReduceStart>(0, axis), values);
    compute(build);
    if (entry.name == kSum) values = build.emit_all(std::make_shared<CollectiveDone>(0, 1), values);
    build.assign(x, values[0]);
  }
  return program;
}

/// A chain of products, whose result is kept.
Compute products(int64_t count) {
  return [count](Builder& build) {
    if (count == 0) return;
    const TensorSpec features{{kRows, kFeatures}, DType::f32}, weight{{kFeatures, kFeatures}, DType::f32};
    const TensorId kept = build.program().persistent("y", features, Role::state, {});
    const TensorId w = build.program().persistent("w", weight, Role::parameter, {});
    TensorId y = kept;
    for (int64_t i = 0; i < count; ++i) y = build.emit<Linear>({y, w});
    build.assign(kept, y);
  };
}

class Timer {
 public:
  Timer(ProcessGroup& group, const Backend& backend) : group_(group), backend_(backend) {}

  /// Seconds of a run of each entry: the median, and of the ranks the mean.
  struct Seconds {
    double quiet, sum;
  };
  Seconds measure(const Program& program, int runs) {
    Executable executable(make_plan(program, *backend_.planner, group_.rank()), *backend_.device);
    initialize(executable, 0);
    std::vector<double> times = {median(executable, kQuiet, runs), median(executable, kSum, runs)};
    group_.all_reduce(times);
    const auto ranks = static_cast<double>(group_.size());
    return {.quiet = times[0] / ranks, .sum = times[1] / ranks};
  }

 private:
  double median(Executable& executable, const char* name, int runs) {
    std::vector<double> seconds;
    const size_t entry = executable.entry(name);
    for (int i = 0; i <= runs; ++i) {  // the first warms up
      barrier(group_);
      const double begin = steady_seconds();
      executable.run(entry);
      backend_.device->synchronize(backend_.device->record_event());
      if (i > 0) seconds.push_back(steady_seconds() - begin);
    }
    std::ranges::nth_element(seconds, seconds.begin() + runs / 2);
    return seconds[static_cast<size_t>(runs / 2)];
  }

  ProcessGroup& group_;
  const Backend& backend_;
};

}  // namespace

LinkTimes measure_links(ProcessGroup& group, const Backend& backend, Axis axis, int64_t beside) {
  Timer timer(group, backend);
  const auto seconds_of_sum = [&](int64_t floats, int runs) {
    const Timer::Seconds found = timer.measure(sums_of(floats, axis, products(0)), runs);
    return std::max(found.sum - found.quiet, 1e-9);
  };
  const double small = seconds_of_sum(kSmall, kSmallRuns), large = seconds_of_sum(kLarge, kLargeRuns);
  const double of_float = std::max((large - small) / static_cast<double>(kLarge - kSmall), 1e-15);
  const auto ranks = static_cast<double>(group.mesh().size(axis));
  const double sent = 2 * (ranks - 1) / ranks * sizeof(float);  // bytes of a float that each rank sends
  LinkTimes found{.link = {.bytes = sent * static_cast<double>(beside) / of_float,
                           .seconds = std::max(small - of_float * kSmall, 0.0) / (2 * (ranks - 1))},
                  .processor_bytes = {}};
  const Timer::Seconds one = timer.measure(sums_of(kSmall, axis, products(1)), kLargeRuns);
  const auto count = static_cast<int64_t>(std::ceil(kHides * large / std::max(one.quiet, 1e-6)));
  const Timer::Seconds both =
      timer.measure(sums_of(kLarge, axis, products(std::min<int64_t>(count, 1000))), kLargeRuns);
  const double lost = both.sum - both.quiet;
  if (lost > kNoise * large) found.processor_bytes = sent * kLarge / lost;
  return found;
}

}  // namespace trainer
