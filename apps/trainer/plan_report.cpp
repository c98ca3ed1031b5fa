// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "apps/trainer/communication_report.h"
#include "apps/trainer/loading_report.h"
#include "apps/trainer/pipeline_report.h"
#include "apps/trainer/time_report.h"
#include "core/base/json.h"
#include "core/recipe/memory_fit.h"
#include "core/recipe/step_work.h"
#include "core/session/report.h"

namespace trainer {
namespace {

double node_flops(const Program& program, const Node& node) {
  const auto [inputs, outputs] = node_specs(program, node);
  return node.op->flops(inputs, outputs);
}

/// By layer: the parameters named after it or with its name and a dot as prefix.
std::map<std::string_view, int64_t> parameters_below(const Program& program) {
  std::map<std::string_view, int64_t> counts;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role != Role::parameter) continue;
    const std::string_view name = tensor.name;
    for (size_t end = name.find('.'); end != std::string_view::npos; end = name.find('.', end + 1))
      counts[name.substr(0, end)] += numel(whole_shape(tensor));
    counts[name] += numel(whole_shape(tensor));
  }
  return counts;
}

std::map<std::string_view, double> flops_by_place(const Program& program, const Entry& entry) {
  std::map<std::string_view, double> flops;
  for (const Node& node : entry.nodes) flops[node.origin.path] += node_flops(program, node);
  return flops;
}

std::string layers_text(const std::vector<LayerRow>& rows) {
  size_t width = 14;
  for (const LayerRow& row : rows) width = std::max(width, row.name.size());
  std::string text = fmt::format("  {:<{}} {:<17} {:<22} {:>12} {:>14} {:>11}\n", "layer", width, "type",
                                 "output", "parameters", "forward", "output");
  int64_t parameters = 0;
  double flops = 0;
  for (const LayerRow& row : rows) {
    text += fmt::format("  {:<{}} {:<17} {:<22} {:>12} {:>14} {:>11}\n", row.name, width, row.type,
                        shape_text(row.output), row.parameters, human_flops(row.forward_flops),
                        human_bytes(row.output_bytes));
    parameters += row.parameters;
    flops += row.forward_flops;
  }
  return text + fmt::format("  {:<{}} {:<17} {:<22} {:>12} {:>14}\n", "total", width, "", "", parameters,
                            human_flops(flops));
}

/// The price of memory.recompute, for one micro-batch.
std::string recompute_text(const Job& job) {
  const Entry& entry = job.program.entries.front();
  double again = 0;
  int64_t count = 0;
  for (const Node& node : entry.nodes) {
    if (!node.again) continue;
    again += node_flops(job.program, node);
    ++count;
  }
  if (count == 0) return "";
  return fmt::format("recomputed to save memory: {} operations, {} ({:.1f} % of the step)\n", count,
                     human_flops(again), 100 * again / step_flops(job));
}

std::string memory_text(const Planner& planner, const Job& job, const PipelineRows& stages) {
  std::string text;
  for (const auto& [kind, bytes] : job.memory.kinds)
    text += fmt::format(
        "  {:<14} {:>11}{}\n", kind, human_bytes(bytes),
        kind == "workspace" && has_bounds(job.plan) ? "  (an upper bound, and so is the peak)" : "");
  const Limit available = available_memory(job.spec, planner);
  const int64_t total = job.memory.total();
  const auto largest = std::ranges::max_element(stages.rows, {}, &StageRow::memory);
  const int64_t most = largest == stages.rows.end() ? total : largest->memory;
  std::string verdict;
  if (total > available.value) {
    verdict = ": DOES NOT FIT";
  } else if (most > available.value) {
    verdict =
        fmt::format(": rank {} NEEDS {}, which DOES NOT FIT",
                    (largest - stages.rows.begin()) * job.spec.mesh().ranks_of_stage(), human_bytes(most));
  }
  text += fmt::format("  {:<14} {:>11} of {} ({:.1f} %{}{}){}\n", "peak", human_bytes(total),
                      human_bytes(available.value),
                      100.0 * static_cast<double>(total) / static_cast<double>(available.value),
                      available.name.empty() ? "" : "; ", available.name, verdict);
  if (most > available.value)
    text += fmt::format("{}\n", fitting_advice(planner, job, available.value).substr(1));
  if (!job.memory.host.empty())
    text +=
        "\n"
        "host memory\n";
  for (const auto& [kind, bytes] : job.memory.host)
    text += fmt::format("  {:<14} {:>11}\n", kind, human_bytes(bytes));
  return text;
}

Json node_json(const Plan& plan, const PlannedNode& planned, const std::optional<DeviceRates>& rates) {
  Json node{{"op", std::string(planned.node.op->name())},
            {"origin", planned.node.origin.path},
            {"phase", std::string(to_string(planned.node.phase))},
            {"implementation", planned.choice.implementation},
            {"algorithm", planned.choice.algorithm},
            {"workspace_bytes", planned.choice.workspace_bytes}};
  if (!rates) return node;
  const Cost cost = cost_of(plan, planned, *rates);
  node["kernels"] = cost.kernels;
  node["bytes"] = cost.bytes;
  node["flops"] = cost.flops;
  node["predicted_seconds"] = cost.seconds();
  node["limit"] = cost.limit();
  return node;
}

}  // namespace

std::string shape_text(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::vector<LayerRow> layer_rows(const RunSpec& spec) {
  const Recipe& recipe = spec.recipe();
  Program program;
  Entry entry(entry_name::kTrainStep);
  Builder build(program, entry);
  const int64_t micro = spec.batch().micro_batch;
  const std::vector<TensorId> x = recipe.model.declare_inputs(program, micro);
  const TensorId index = program.input(input_name::kSampleIndex, {{micro}, DType::i32});
  const std::vector<TensorId> outputs = recipe.model.build(
      {.build = build, .training = true, .sample_index = index, .step = step_counter(program)}, x);
  const std::map<std::string_view, int64_t> parameters = parameters_below(program);
  const std::map<std::string_view, double> flops = flops_by_place(program, entry);
  const auto in = [](const auto& map, std::string_view key) {
    const auto found = map.find(key);
    return found == map.end() ? 0 : found->second;
  };
  std::vector<LayerRow> rows;
  for (size_t i = 0; i < recipe.model.layers.size(); ++i) {
    const Layer& layer = *recipe.model.layers[i];
    LayerRow row{.name = recipe.model.layer_name(i),
                 .type = layer.chosen_as,
                 .output = program.spec(outputs[i]).shape};
    row.parameters = in(parameters, row.name);
    row.output_bytes = numel(row.output) * bytes_per_element(DType::f32);
    row.forward_flops = in(flops, layer.origin.path);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string plan_text(const Planner& planner, const Job& job, const Arguments& arguments) {
  const Recipe& recipe = job.spec.recipe();
  const BatchSplit& batch = job.spec.batch();
  std::string text = fmt::format("run {}: {} of {} samples", recipe.run.name,
                                 to_string(recipe.training.max_duration), batch.global_batch);
  text += split_text(batch);
  text += fmt::format(", on {}\n", planner.name());
  if (job.found_micro_batch) {
    text +=
        fmt::format("training.micro_batch_size=auto chose {}: the largest divisor of {} whose plan fits\n",
                    batch.micro_batch, batch.rank_batch());
  }
  for (const std::string& remark : remarks_of(planner, job)) text += remark + "\n";
  if (job.train) {
    text +=
        fmt::format("data {}: {} training samples, {} steps of {} an epoch\n", recipe.data.format,
                    job.train->size, job.settings.steps, job.settings.samples_per_epoch / batch.global_batch);
  }
  for (const auto& info : {job.train, job.validation}) {
    if (info && !info->summary.empty()) text += info->summary + "\n";
    if (info && !info->warning.empty()) text += "warning: " + info->warning + "\n";
  }
  text += fmt::format("\nlayers, for a micro-batch of {}\n{}", batch.micro_batch,
                      layers_text(layer_rows(job.spec)));
  text +=
      fmt::format("\none {}: {} in {} operations\n", job.use.purpose == Purpose::predict ? "batch" : "step",
                  human_flops(step_flops(job)), job.plan.entries.front().nodes.size());
  text += recompute_text(job);
  text += communication_text(job);
  const PipelineRows stages = pipeline_rows(planner, job, arguments.disabled_passes);
  text += pipeline_text(job, stages);
  text += time_text(planner, job);
  text += loading_text(planner, job, arguments);
  text += fmt::format("\nmemory\n{}", memory_text(planner, job, stages));
  return text;
}

std::string plan_json(const Planner& planner, const Job& job, const Arguments& arguments) {
  const RunSpec& spec = job.spec;
  Json report;
  report["run"] = spec.recipe().run.name;
  report["device"] = std::string(planner.name());
  report["remarks"] = remarks_of(planner, job);
  report["steps"] = job.settings.steps;
  report["global_batch_size"] = spec.batch().global_batch;
  report["micro_batch_size"] = spec.batch().micro_batch;
  for (const LayerRow& row : layer_rows(spec)) {
    report["layers"].push_back({{"name", row.name},
                                {"type", row.type},
                                {"output", row.output},
                                {"parameters", row.parameters},
                                {"forward_flops", row.forward_flops},
                                {"output_bytes", row.output_bytes}});
  }
  report["step_flops"] = step_flops(job);
  report["ranks"] = spec.ranks();
  add_communication(job, report);
  add_pipeline(job, pipeline_rows(planner, job, arguments.disabled_passes), report);
  for (const auto& [kind, bytes] : job.memory.kinds) report["memory"][kind + "_bytes"] = bytes;
  for (const auto& [kind, bytes] : job.memory.host) report["host_memory"][kind + "_bytes"] = bytes;
  report["memory"]["peak_bytes"] = job.memory.total();
  report["memory"]["peak_is_bound"] = has_bounds(job.plan);
  const Limit available = available_memory(job.spec, planner);
  report["memory"]["available_bytes"] = available.value;
  if (!available.name.empty()) report["memory"]["limit"] = available.name;
  report["memory"]["arena_bytes"] = job.plan.scratch_bytes;
  add_time(planner, job, report);
  add_loading(planner, job, arguments, report);
  const std::optional<DeviceRates> rates = planner.rates();
  for (const PlannedEntry& entry : job.plan.entries) {
    Json nodes = Json::array();
    for (const PlannedNode& planned : entry.nodes) {
      if (planned.runs) nodes.push_back(node_json(job.plan, planned, rates));
    }
    report["entries"].push_back({{"name", entry.name},
                                 {"scratch_bytes", entry.scratch_bytes},
                                 {"lower_bound_bytes", entry.live_bytes},
                                 {"nodes", nodes}});
  }
  return report.dump(2) + "\n";
}

}  // namespace trainer
