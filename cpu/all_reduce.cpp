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
  for (size_t i = 0; i < inputs.size(); ++i) {
    choice.inputs[i] = choice.outputs[i] = inputs[i].value_or(Layout{});
  }
  return choice;
}

std::vector<int64_t> stored_counts(const OpContext& context, const Choice& choice) {
  std::vector<int64_t> counts;
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    counts.push_back(stored_elements(choice.inputs[i], context.inputs[i].shape));
  }
  return counts;
}

/// An output in other memory than its input.
void copy_over(const Slots& slots, const std::vector<int64_t>& counts) {
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto* from = at<const float>(slots.inputs[i]);
    float* to = at<float>(slots.outputs[i]);
    if (from == to) continue;
    parallel_ranges(counts[i], 1, int64_t{1} << 16,
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
  const std::vector<int64_t> counts = stored_counts(context, choice);
  return kernel([=, &group, &collectives = require_collectives(group),
                 numbers = std::vector<std::span<float>>(counts.size())]() mutable {
    copy_over(slots, counts);
    if (group.skips_collectives()) return;
    for (size_t i = 0; i < counts.size(); ++i) {
      numbers[i] = {at<float>(slots.outputs[i]), static_cast<size_t>(counts[i])};
    }
    start(collectives, numbers);
  });
}

/// wait(collectives) returns once the collective is done.
template <class Wait>
std::unique_ptr<Kernel> done_kernel(ProcessGroup& group, const OpContext& context, const Choice& choice,
                                    const Slots& slots, Wait wait) {
  return kernel(
      [=, &group, &collectives = require_collectives(group), counts = stored_counts(context, choice)] {
        if (!group.skips_collectives()) wait(collectives);
        copy_over(slots, counts);
      });
}

}  // namespace

void add_all_reduce(Handlers& handlers) {
  ProcessGroup* group = handlers.group();
  const auto compile_gather = [group](const OpContext& context, const Choice&, const Slots& slots) {
    const int64_t bytes = bytes_per_element(context.inputs[AllGather::kPart].dtype);
    const auto part = static_cast<size_t>(numel(context.inputs[AllGather::kPart].shape) * bytes),
               whole = static_cast<size_t>(numel(context.outputs[AllGather::kWhole].shape) * bytes);
    return kernel([=, &all = require_collectives(require_group(group))] {
      all.start_all_gather({at<const std::byte>(slots.inputs[AllGather::kPart]), part},
                           {at<std::byte>(slots.outputs[AllGather::kWhole]), whole});
      all.wait_all_gather();
    });
  };
  const auto compile_scatter = [group](const OpContext& context, const Choice&, const Slots& slots) {
    const auto whole = static_cast<size_t>(numel(context.inputs[ReduceScatter::kWhole].shape)),
               part = static_cast<size_t>(numel(context.outputs[ReduceScatter::kPart].shape));
    return kernel([=, &all = require_collectives(require_group(group))] {
      all.start_reduce_scatter({at<const float>(slots.inputs[ReduceScatter::kWhole]), whole},
                               {at<float>(slots.outputs[ReduceScatter::kPart]), part});
      all.wait_reduce_scatter();
    });
  };
  const auto compile_start = [group](const OpContext& context, const Choice& choice, const Slots& slots) {
    const int64_t bucket = static_cast<const AllReduceStart&>(context.op).bucket;
    return start_kernel(
        require_group(group), context, choice, slots,
        [=](Collectives& all, const auto& numbers) { all.start_all_reduce(bucket, numbers); });
  };
  const auto compile_done = [group](const OpContext& context, const Choice& choice, const Slots& slots) {
    const int64_t bucket = static_cast<const AllReduceDone&>(context.op).bucket;
    return done_kernel(require_group(group), context, choice, slots,
                       [=](Collectives& all) { all.wait_all_reduce(bucket); });
  };
  const auto compile_send = [group](const OpContext& context, const Choice& choice, const Slots& slots) {
    const int64_t root = static_cast<const BroadcastStart&>(context.op).root;
    return start_kernel(require_group(group), context, choice, slots,
                        [=](Collectives& all, const auto& numbers) { all.start_broadcast(root, numbers); });
  };
  const auto compile_sent = [group](const OpContext& context, const Choice& choice, const Slots& slots) {
    const int64_t root = static_cast<const BroadcastDone&>(context.op).root;
    return done_kernel(require_group(group), context, choice, slots,
                       [=](Collectives& all) { all.wait_broadcast(root); });
  };
  const auto compile_decay = [group](const OpContext& context, const Choice& choice, const Slots& slots) {
    const ProcessGroup& all = require_group(group);
    const auto later = static_cast<double>(all.size() - 1 - all.rank());
    const auto factor =
        static_cast<float>(std::pow(static_cast<const DecayByRank&>(context.op).decay, later));
    const int64_t count = stored_counts(context, choice)[0];
    return kernel([=] {
      const auto* x = at<const float>(slots.inputs[DecayByRank::kX]);
      float* y = at<float>(slots.outputs[DecayByRank::kY]);
      for (int64_t i = 0; i < count; ++i) y[i] = factor * x[i];
    });
  };
  handlers[typeid(AllReduceStart)] = {select_each, compile_start, {}};
  handlers[typeid(AllReduceDone)] = {select_each, compile_done, {}};
  handlers[typeid(BroadcastStart)] = {select_each, compile_send, {}};
  handlers[typeid(BroadcastDone)] = {select_each, compile_sent, {}};
  handlers[typeid(AllGather)] = {select_row_major, compile_gather, {}};
  handlers[typeid(ReduceScatter)] = {select_row_major, compile_scatter, {}};
  handlers[typeid(DecayByRank)] = {select_each, compile_decay, {}};
}

}  // namespace trainer::cpu
