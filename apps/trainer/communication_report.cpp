// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/communication_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "core/base/units.h"
#include "core/engine/traffic.h"
#include "core/graph/names.h"
#include "core/graph/ops/all_gather.h"
#include "core/graph/ops/all_reduce.h"
#include "core/graph/ops/exchange.h"

namespace trainer {
namespace {

/// Tensors that travel together.
struct SumRow {
  int64_t number = 0;
  size_t tensors = 0;
  int64_t bytes = 0;
  double after = 0;  ///< the part of the backward part's operations that come before
  bool is_of_statistics = false;
  bool is_of_copies = false;  ///< of parts of gradients, between the copies of the parameters
};

/// What a rank adds up with the others in an entry, in order.
std::vector<SumRow> sum_rows(const Job& job, const PlannedEntry& entry) {
  std::vector<SumRow> rows;
  std::set<TensorId> tables;
  double before = 0;
  for (const PlannedNode& planned : entry.nodes) {
    const Node& node = planned.node;
    if (node.op->name() == "batch_norm_moments" || node.op->name() == "batch_norm_sums")
      tables.insert(node.outputs[0]);
    const auto* op = dynamic_cast<const AllReduceStart*>(node.op.get());
    if (op != nullptr && op->axis != Axis::tensor && op->axis != Axis::pipeline) {
      SumRow row{.number = op->number, .tensors = node.inputs.size(), .after = before};
      row.is_of_copies = op->axis == Axis::replicas;
      row.is_of_statistics = tables.contains(node.inputs[0]);
      for (const TensorId id : node.inputs) row.bytes += job.plan.placements[static_cast<size_t>(id)].bytes;
      rows.push_back(row);
    }
    if (node.phase == Phase::backward && planned.runs) ++before;
  }
  for (SumRow& row : rows) row.after /= std::max(1.0, before);
  return rows;
}

/// What is added up over the ranks in a step.
struct CommunicationVolume {
  std::vector<SumRow> buckets;  ///< of gradients, once in a step
  SumRow statistics;            ///< of batch normalisation, in each micro-batch; its number is that of sums
};

CommunicationVolume volume_of(const Job& job) {
  CommunicationVolume found;
  for (const PlannedEntry& entry : job.plan.entries) {
    SumRow statistics;
    for (const SumRow& row : sum_rows(job, entry)) {
      if (!row.is_of_statistics) {
        found.buckets.push_back(row);
      } else {
        ++statistics.number;
        statistics.bytes += row.bytes;
      }
    }
    if (statistics.number > 0) found.statistics = statistics;
  }
  return found;
}

/// What ranks do with parameters and moments that are shared out (parallelism.shard_optimizer).
struct Shares {
  size_t tensors = 0;
  int64_t bytes = 0;                 ///< of the parameters, which are sent once in a step
  int64_t largest = 0, moments = 0;  ///< bytes of moments: of the rank that has most, and of all
};

Shares shares_of(const Job& job) {
  Shares found;
  for (const PlannedEntry& entry : job.plan.entries) {
    for (const PlannedNode& planned : entry.nodes) {
      if (dynamic_cast<const BroadcastStart*>(planned.node.op.get()) == nullptr) continue;
      found.tensors += planned.node.inputs.size();
      for (const TensorId id : planned.node.inputs)
        found.bytes += job.plan.placements[static_cast<size_t>(id)].bytes;
    }
  }
  std::map<int64_t, int64_t> moments;
  for (size_t i = 0; i < job.plan.tensors.size(); ++i) {
    if (const auto& rank = job.plan.tensors[i].rank) moments[*rank] += job.plan.placements[i].bytes;
  }
  for (const auto& [rank, bytes] : moments) {
    found.largest = std::max(found.largest, bytes);
    found.moments += bytes;
  }
  return found;
}

/// What ranks along an axis exchange in a step: of parameters in parts (parallelism.shard_parameters), or of
/// operations that they share (parallelism.tensor).
struct PartsVolume {
  int64_t gathers = 0, gathered = 0;    ///< tensors, and their bytes
  int64_t scatters = 0, scattered = 0;  ///< tensors that are added up, and their bytes
  int64_t bytes() const { return gathered + scattered; }
};

PartsVolume parts_of(const Job& job, Axis axis) {
  PartsVolume found;
  for (const PlannedEntry& entry : job.plan.entries) {
    const int64_t runs = runs_of(job.plan, entry.name, job.spec.loaded_batch().micro_batches());
    for (const PlannedNode& planned : entry.nodes) {
      const auto* op = dynamic_cast<const CollectiveStart*>(planned.node.op.get());
      if (op == nullptr || op->axis != axis) continue;
      const bool gathers = dynamic_cast<const AllGatherStart*>(op) != nullptr;
      const std::vector<TensorId>& wholes = gathers ? planned.node.outputs : planned.node.inputs;
      (gathers ? found.gathers : found.scatters) += runs * static_cast<int64_t>(wholes.size());
      for (const TensorId id : wholes)
        (gathers ? found.gathered : found.scattered) +=
            runs * job.plan.placements[static_cast<size_t>(id)].bytes;
    }
  }
  return found;
}

/// What a rank sends to other stages in a step (parallelism.pipeline).
struct Messages {
  int64_t count = 0, bytes = 0;
};

Messages messages_of(const Job& job) {
  Messages found;
  if (!job.plan.has_entry(entry_name::kTrainStep)) return found;
  for (const PlannedNode& planned : job.plan.entry(entry_name::kTrainStep).nodes) {
    if (dynamic_cast<const ExchangeStart*>(planned.node.op.get()) == nullptr) continue;
    found.count += static_cast<int64_t>(planned.node.inputs.size());
    for (const TensorId id : planned.node.inputs)
      found.bytes += job.plan.placements[static_cast<size_t>(id)].bytes;
  }
  return found;
}

std::string parts_text(const char* name, const PartsVolume& parts, const char* key) {
  if (parts.bytes() == 0) return "";
  return fmt::format("  {:<10} {:>10} gathered in {} tensors, and {} added up in {} ({})\n", name,
                     human_bytes(parts.gathered), parts.gathers, human_bytes(parts.scattered), parts.scatters,
                     key);
}

Json parts_json(const PartsVolume& parts) {
  return {{"gathers", parts.gathers},
          {"gathered_bytes", parts.gathered},
          {"scatters", parts.scatters},
          {"scattered_bytes", parts.scattered}};
}

}  // namespace

std::string communication_text(const Job& job) {
  if (job.spec.ranks() == 1) return "";
  const CommunicationVolume all = volume_of(job);
  const Shares shares = shares_of(job);
  const PartsVolume parts = parts_of(job, Axis::shards), operations = parts_of(job, Axis::tensor);
  const Messages messages = messages_of(job);
  const std::map<Axis, int64_t> traffic = traffic_of_step(job.plan, job.spec.loaded_batch().micro_batches());
  int64_t bytes = 0;
  for (const auto& [axis, of_axis] : traffic) bytes += of_axis;
  std::string text = fmt::format("\ncommunication of {} ranks: {} from each in a step\n", job.spec.ranks(),
                                 human_bytes(bytes));
  if (traffic.size() > 1) {
    for (const auto& [axis, of_axis] : traffic)
      text += fmt::format("  along {:<8} {:>6}\n", to_string(axis), human_bytes(of_axis));
  }
  for (const SumRow& row : all.buckets) {
    text += fmt::format("  bucket {:<3} {:>10} in {:>3} tensors, after {:.0f} % of the backward part{}\n",
                        row.number, human_bytes(row.bytes), row.tensors, 100 * row.after,
                        row.is_of_copies ? ", between copies" : "");
  }
  if (all.statistics.number > 0) {
    text +=
        fmt::format("  statistics {:>10} in {:>3} sums of each micro-batch (parallelism.sync_batch_norm)\n",
                    human_bytes(all.statistics.bytes), all.statistics.number);
  }
  text += parts_text("parts", parts, "parallelism.shard_parameters");
  text += parts_text("operations", operations, "parallelism.tensor");
  if (messages.count > 0)
    text += fmt::format("  {:<10} {:>10} sent to other stages in {} messages (parallelism.pipeline)\n",
                        "messages", human_bytes(messages.bytes), messages.count);
  if (operations.bytes() > 0)
    text += fmt::format("each rank repeats {:.1f} % of the forward part's operations\n",
                        100 * job.program.repeated);
  if (shares.moments > 0) {
    text += fmt::format(
        "  parameters {:>10} in {:>3} tensors to each, after the update (parallelism.shard_optimizer)\n",
        human_bytes(shares.bytes), shares.tensors);
    text += fmt::format("moments of the optimizer: {} on the rank that has most, {} if shared evenly\n",
                        human_bytes(shares.largest), human_bytes(shares.moments / job.spec.ranks()));
  }
  return text;
}

void add_communication(const Job& job, Json& report) {
  for (const auto& [axis, bytes] : traffic_of_step(job.plan, job.spec.loaded_batch().micro_batches()))
    report["traffic_bytes"][to_string(axis)] = bytes;
  const CommunicationVolume all = volume_of(job);
  for (const SumRow& row : all.buckets)
    report["buckets"].push_back({{"tensors", row.tensors}, {"bytes", row.bytes}, {"after", row.after}});
  if (all.statistics.number > 0)
    report["statistics"] = {{"sums", all.statistics.number}, {"bytes", all.statistics.bytes}};
  if (const PartsVolume parts = parts_of(job, Axis::shards); parts.bytes() > 0)
    report["parts"] = parts_json(parts);
  if (const PartsVolume shared = parts_of(job, Axis::tensor); shared.bytes() > 0) {
    report["operations"] = parts_json(shared);
    report["repeated"] = job.program.repeated;
  }
  if (const Messages messages = messages_of(job); messages.count > 0)
    report["messages"] = {{"sent", messages.count}, {"sent_bytes", messages.bytes}};
  if (const Shares shares = shares_of(job); shares.moments > 0) {
    report["shards"] = {{"parameter_bytes", shares.bytes},
                        {"largest_moment_bytes", shares.largest},
                        {"moment_bytes", shares.moments}};
  }
}

}  // namespace trainer
