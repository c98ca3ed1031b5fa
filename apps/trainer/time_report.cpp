// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/time_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "apps/trainer/device_models.h"
#include "apps/trainer/machine_models.h"
#include "apps/trainer/tensor_cores.h"
#include "core/base/units.h"
#include "core/graph/names.h"
#include "core/graph/operation.h"
#include "core/recipe/step_work.h"

namespace trainer {
namespace {

double samples_per_second(const Job& job, const StepCost& step) {
  return static_cast<double>(job.spec.batch().global_batch) / step.seconds();
}

/// Adds the communication between ranks, if a machine with such devices is described.
void add_peers(const Planner& planner, const Job& job, const DeviceRates& rates, StepCost& step) {
  if (job.spec.ranks() == 1 || job.use.purpose != Purpose::train) return;
  const std::string& model = job.spec.recipe().device.model.written;
  const auto machine = machine_with(model == "auto" ? kDefaultModel : model);
  if (!machine || (!machine->among && job.spec.ranks() > machine->devices_of_node)) return;
  const JobRequest request{
      .has_data = job.train.has_value(), .use = job.use, .balanced_weights = job.balanced_weights};
  step.with_peers = predict_step(job, planner, request, *machine, timed_by_rates(rates)).slowest;
  step.machine = machine->name;
}

std::string peers_text(const Job& job, const StepCost& step) {
  if (!step.with_peers) {
    return job.spec.ranks() == 1 ? ""
                                 : "  without the communication of ranks: no machine with such devices is "
                                   "described (--ranks, --machine)\n";
  }
  return fmt::format("  with communication, {} ranks on {}: {:.2f} ms, of which {:.2f} ms are exposed\n",
                     job.spec.ranks(), step.machine, 1e3 * step.seconds(), 1e3 * step.with_peers->waiting);
}

/// Of one rank; those that several compute together count in part.
double samples_of_step(const Job& job) {
  return static_cast<double>(job.spec.batch().rank_batch()) /
         static_cast<double>(job.spec.mesh().tensor * job.spec.mesh().stages);
}

/// Of a described GPU, in watts.
std::optional<double> power_limit(const Job& job) {
  const DeviceSection& device = job.spec.recipe().device;
  if (device.type == "cpu" || device.model.written == "auto") return std::nullopt;
  return find_device(device.model, job.spec.recipe().origin_of("device.model")).power_watts;
}

std::string energy_text(const Job& job, const StepCost& step) {
  const std::optional<double> watts = power_limit(job);
  if (!watts) return "";
  return fmt::format("  at most {:.3g} J a sample, at the power limit of {:g} W\n",
                     *watts * step.seconds() / samples_of_step(job), *watts);
}

std::string row(const std::string& name, const Cost& cost, const Cost& total) {
  return fmt::format("  {:<24} {:>8} {:>11} {:>14} {:>10} {:>5.1f} %  {}\n", name, cost.kernels,
                     human_bytes(static_cast<int64_t>(cost.bytes)), human_flops(cost.flops),
                     fmt::format("{:.2f} ms", 1e3 * cost.seconds()), 100 * cost.seconds() / total.seconds(),
                     cost.limit());
}

Json to_json(const Cost& cost) {
  return {{"kernels", cost.kernels},
          {"bytes", cost.bytes},
          {"flops", cost.flops},
          {"seconds", cost.seconds()},
          {"limit", cost.limit()}};
}

}  // namespace

std::optional<StepCost> step_cost(const Planner& planner, const Job& job) {
  const std::optional<DeviceRates> rates = planner.rates();
  if (!rates) return std::nullopt;
  StepCost step;
  std::map<std::string, Cost> kinds;
  for (const auto& [entry, times] : entries_of_step(job)) {
    for (const PlannedNode& planned : entry->nodes) {
      const Cost cost = cost_of(job.plan, planned, *rates);
      if (cost.kernels == 0) continue;
      kinds[std::string(planned.node.op->name())].add(cost, times);
      step.total.add(cost, times);
    }
  }
  step.operations.assign(kinds.begin(), kinds.end());
  std::ranges::stable_sort(
      step.operations, [](const auto& a, const auto& b) { return a.second.seconds() > b.second.seconds(); });
  add_peers(planner, job, *rates, step);
  return step;
}

std::string time_text(const Planner& planner, const Job& job) {
  const std::optional<StepCost> step = step_cost(planner, job);
  if (!step) {
    return planner.name() == "cuda" ? "\nno times are predicted: the device's rates are not known; "
                                      "device.model=h200 or a description with "
                                      "\"rates\" has some\n"
                                    : "";
  }
  const Cost& total = step->total;
  std::string text = fmt::format(
      "\npredicted from the device's rates, not measured\n  {:<24} {:>8} {:>11} {:>14} {:>10} {:>7}  {}\n",
      "operation", "kernels", "moved", "computed", "time", "share", "limit");
  for (const auto& [name, cost] : step->operations) text += row(name, cost, total);
  text += row("one step", total, total) + peers_text(job, *step);
  text += fmt::format(
      "  {:.0f} samples/s; {} and {} a sample; taken to reach {:.0f} % of the memory's rate, {:.0f} % of "
      "the arithmetic's, and {:.1f} us from a kernel to the next\n",
      samples_per_second(job, *step), human_bytes(static_cast<int64_t>(total.bytes / samples_of_step(job))),
      human_flops(total.flops / samples_of_step(job)), 100 * kEfficiency.bytes, 100 * kEfficiency.flops,
      1e6 * kEfficiency.seconds_per_kernel);
  return text + energy_text(job, *step) + tensor_core_text(job);
}

void add_time(const Planner& planner, const Job& job, Json& report) {
  const std::optional<StepCost> step = step_cost(planner, job);
  if (!step) return;
  Json& predicted = report["predicted"];
  predicted = to_json(step->total);
  predicted["samples_per_second"] = samples_per_second(job, *step);
  if (step->with_peers) {
    predicted["machine"] = step->machine;
    predicted["seconds_with_peers"] = step->seconds();
    predicted["exposed_seconds"] = step->with_peers->waiting;
  }
  predicted["share_of_memory_rate"] = kEfficiency.bytes;
  predicted["share_of_arithmetic_rate"] = kEfficiency.flops;
  if (const std::optional<double> watts = power_limit(job)) {
    predicted["power_limit_watts"] = *watts;
    predicted["most_joules_per_sample"] = *watts * step->seconds() / samples_of_step(job);
  }
  predicted["seconds_per_kernel"] = kEfficiency.seconds_per_kernel;
  for (const auto& [name, cost] : step->operations) predicted["operations"][name] = to_json(cost);
  report["tensor_cores"] = tensor_core_json(job);
}

}  // namespace trainer
