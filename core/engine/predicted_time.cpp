// SPDX-License-Identifier: Apache-2.0
#include "core/engine/predicted_time.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/graph/operation.h"

namespace trainer {
namespace {

double stored_bytes(const Plan& plan, const std::vector<TensorId>& tensors) {
  int64_t bytes = 0;
  for (const TensorId id : std::set(tensors.begin(), tensors.end())) {
    if (id != kNone) bytes += plan.placements[static_cast<size_t>(id)].bytes;
  }
  return static_cast<double>(bytes);
}

/// Of products by the type of their factors; all else computes in f32.
double flops_rate(const PlannedNode& planned, DType factors, const DeviceRates& rates) {
  if (!planned.choice.tensor_cores) return rates.f32;
  return factors == DType::f16 ? rates.f16 : factors == DType::bf16 ? rates.bf16 : rates.tf32;
}

}  // namespace

NodeWork work_of(const Plan& plan, const PlannedNode& planned) {
  const Node& node = planned.node;
  return {.bytes = stored_bytes(plan, node.inputs) + stored_bytes(plan, node.outputs) +
                   static_cast<double>(planned.choice.again_bytes),
          .flops = node.op->flops(specs_of(plan.tensors, node.inputs), specs_of(plan.tensors, node.outputs))};
}

void Cost::add(const Cost& other, double times) {
  kernels += std::llround(static_cast<double>(other.kernels) * times);
  bytes += other.bytes * times;
  flops += other.flops * times;
  moving += other.moving * times;
  computing += other.computing * times;
  starting += other.starting * times;
}

const char* Cost::limit() const {
  if (starting > moving && starting > computing) return "starts";
  return moving >= computing ? "bytes" : "arithmetic";
}

double arithmetic_seconds(const Plan& plan, const PlannedNode& planned, const DeviceRates& rates) {
  if (!planned.runs) return 0;
  const std::vector<TensorSpec> inputs = specs_of(plan.tensors, planned.node.inputs),
                                outputs = specs_of(plan.tensors, planned.node.outputs);
  return planned.node.op->flops(inputs, outputs) /
         flops_rate(planned, inputs.empty() ? DType::f32 : inputs[0].dtype, rates);
}

Cost cost_of(const Plan& plan, const PlannedNode& planned, const DeviceRates& rates) {
  if (!planned.runs || planned.choice.kernels == 0) return {};
  const NodeWork work = work_of(plan, planned);
  Cost cost{.kernels = planned.choice.kernels, .bytes = work.bytes, .flops = work.flops};
  const double moving = cost.bytes / (rates.bytes * kEfficiency.bytes),
               computing = arithmetic_seconds(plan, planned, rates) / kEfficiency.flops;
  (moving >= computing ? cost.moving : cost.computing) = std::max(moving, computing);
  cost.starting = kEfficiency.seconds_per_kernel * static_cast<double>(planned.choice.kernels);
  return cost;
}

Cost cost_of(const Plan& plan, const PlannedEntry& entry, const DeviceRates& rates) {
  Cost sum;
  for (const PlannedNode& planned : entry.nodes) sum.add(cost_of(plan, planned, rates));
  return sum;
}

}  // namespace trainer
