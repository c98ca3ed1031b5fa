// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/all_reduce.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/engine/collectives.h"
#include "core/engine/process_group.h"
#include "core/graph/ops/all_gather.h"
#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

/// Every tensor keeps its layout: all ranks have the same plan, and padding adds up to zero.
Choice select_each(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_row_major(context, inputs);
  for (size_t i = 0; i < context.outputs.size(); ++i)
    choice.inputs[i] = choice.outputs[i] = inputs[i].value_or(Layout{});
  return choice;
}

/// Of the outputs.
std::vector<int64_t> stored_bytes(const OpContext& context, const Choice& choice) {
  std::vector<int64_t> bytes;
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    bytes.push_back(stored_elements(choice.outputs[i], context.outputs[i].shape) *
                    bytes_per_element(context.outputs[i].dtype));
  }
  return bytes;
}

/// Outputs in other memory than their inputs.
void copy_over(const Slots& slots, const std::vector<int64_t>& bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto* from = at<const std::byte>(slots.inputs[i]);
    auto* to = at<std::byte>(slots.outputs[i]);
    if (from == to) continue;
    parallel_ranges(bytes[i], 1, int64_t{1} << 18,
                    [&](int64_t begin, int64_t end) { std::copy(from + begin, from + end, to + begin); });
  }
}

ProcessGroup& require_group(ProcessGroup* group) {
  if (group == nullptr) throw std::logic_error("a program for several ranks on a device of one process");
  return *group;
}

Collectives& require_collectives(ProcessGroup& group) {
  Collectives* collectives = group.host_collectives();
  if (collectives == nullptr) throw std::logic_error("a program for several ranks on CPUs without MPI");
  return *collectives;
}

/// start(collectives, numbers) starts a collective over the outputs.
template <class Start>
std::unique_ptr<Kernel> start_kernel(ProcessGroup& group, const OpContext& context, const Choice& choice,
                                     const Slots& slots, Start start) {
  const std::vector<int64_t> bytes = stored_bytes(context, choice);
  return kernel([=, &group, &collectives = require_collectives(group),
                 numbers = std::vector<std::span<float>>(bytes.size())]() mutable {
    copy_over(slots, bytes);
    if (group.skips_collectives()) return;
    for (size_t i = 0; i < bytes.size(); ++i) {
      numbers[i] = {at<float>(slots.outputs[i]), static_cast<size_t>(bytes[i]) / sizeof(float)};
    }
    start(collectives, numbers);
  });
}

std::unique_ptr<Kernel> start_reduce(ProcessGroup& group, const OpContext& context, const Choice& choice,
                                     const Slots& slots) {
  const auto& op = static_cast<const AllReduceStart&>(context.op);
  return start_kernel(group, context, choice, slots,
                      [number = op.number, axis = op.axis](Collectives& all, const auto& numbers) {
                        all.start_all_reduce(number, axis, numbers);
                      });
}

std::unique_ptr<Kernel> start_broadcast(ProcessGroup& group, const OpContext& context, const Choice& choice,
                                        const Slots& slots) {
  const auto& op = static_cast<const BroadcastStart&>(context.op);
  return start_kernel(group, context, choice, slots,
                      [number = op.number, root = op.root](Collectives& all, const auto& numbers) {
                        all.start_broadcast(number, root, numbers);
                      });
}

size_t bytes_of(const TensorSpec& spec) {
  return static_cast<size_t>(numel(spec.shape) * bytes_per_element(spec.dtype));
}

std::unique_ptr<Kernel> start_gather(ProcessGroup& group, const OpContext& context, const Choice&,
                                     const Slots& slots) {
  const auto& op = static_cast<const AllGatherStart&>(context.op);
  std::vector<size_t> parts, wholes;
  for (const TensorSpec& part : context.inputs) parts.push_back(bytes_of(part));
  for (const TensorSpec& whole : context.outputs) wholes.push_back(bytes_of(whole));
  return kernel([=, number = op.number, axis = op.axis, &all = require_collectives(group),
                 tensors = std::vector<Gathered>(parts.size())]() mutable {
    for (size_t i = 0; i < parts.size(); ++i)
      tensors[i] = {.own = {at<const std::byte>(slots.inputs[i]), parts[i]},
                    .whole = {at<std::byte>(slots.outputs[i]), wholes[i]}};
    all.start_all_gather(number, axis, tensors);
  });
}

std::unique_ptr<Kernel> start_scatter(ProcessGroup& group, const OpContext& context, const Choice&,
                                      const Slots& slots) {
  const auto& op = static_cast<const ReduceScatterStart&>(context.op);
  std::vector<size_t> wholes;
  for (const TensorSpec& whole : context.inputs) wholes.push_back(static_cast<size_t>(numel(whole.shape)));
  return kernel([=, number = op.number, axis = op.axis, lengths = op.parts, &all = require_collectives(group),
                 tensors = std::vector<Scattered>(wholes.size())]() mutable {
    for (size_t i = 0; i < wholes.size(); ++i)
      tensors[i] = {.own = {at<float>(slots.outputs[i]), static_cast<size_t>(lengths[i])},
                    .whole = {at<const float>(slots.inputs[i]), wholes[i]}};
    all.start_reduce_scatter(number, axis, tensors);
  });
}

std::unique_ptr<Kernel> finish(ProcessGroup& group, const OpContext& context, const Choice& choice,
                               const Slots& slots) {
  const int64_t number = static_cast<const CollectiveDone&>(context.op).number;
  return kernel([=, &collectives = require_collectives(group), bytes = stored_bytes(context, choice)] {
    collectives.wait(number);
    copy_over(slots, bytes);
  });
}

std::unique_ptr<Kernel> decay(const ProcessGroup& group, const OpContext& context, const Choice& choice,
                              const Slots& slots) {
  const auto later = static_cast<double>(group.size() - 1 - group.rank());
  const auto factor = static_cast<float>(std::pow(static_cast<const DecayByRank&>(context.op).decay, later));
  const int64_t count = stored_elements(choice.outputs[0], context.outputs[0].shape);
  return kernel([=] {
    const auto* x = at<const float>(slots.inputs[DecayByRank::kX]);
    float* y = at<float>(slots.outputs[DecayByRank::kY]);
    for (int64_t i = 0; i < count; ++i) y[i] = factor * x[i];
  });
}

}  // namespace

void add_all_reduce(Handlers& handlers) {
  const auto compiled = [group = handlers.group()](auto compile) {
    return [group, compile](const OpContext& context, const Choice& choice, const Slots& slots) {
      return compile(require_group(group), context, choice, slots);
    };
  };
  handlers[typeid(AllReduceStart)] = {select_each, compiled(start_reduce), {}};
  handlers[typeid(BroadcastStart)] = {select_each, compiled(start_broadcast), {}};
  handlers[typeid(AllGatherStart)] = {select_row_major, compiled(start_gather), {}};
  handlers[typeid(ReduceScatterStart)] = {select_row_major, compiled(start_scatter), {}};
  handlers[typeid(CollectiveDone)] = {select_each, compiled(finish), {}};
  handlers[typeid(DecayByRank)] = {select_each, compiled(decay), {}};
}

}  // namespace trainer::cpu
