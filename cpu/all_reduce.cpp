// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/all_reduce.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/engine/communicator.h"
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

Communicator& require_ranks(Communicator* ranks) {
  if (ranks == nullptr) throw std::logic_error("a program for several ranks on a device that has none");
  return *ranks;
}

/// Lets start(ranks, numbers) begin the operation on the outputs.
template <class Start>
std::unique_ptr<Kernel> start_kernel(Communicator* ranks, const OpContext& context, const Choice& choice,
                                     const Slots& slots, Start start) {
  const std::vector<int64_t> counts = stored_counts(context, choice);
  return kernel(
      [=, &all = require_ranks(ranks), numbers = std::vector<std::span<float>>(counts.size())]() mutable {
        copy_over(slots, counts);
        if (all.is_muted()) return;
        for (size_t i = 0; i < counts.size(); ++i) {
          numbers[i] = {at<float>(slots.outputs[i]), static_cast<size_t>(counts[i])};
        }
        start(all, numbers);
      });
}

/// finish(ranks) returns once it is done.
template <class Finish>
std::unique_ptr<Kernel> done_kernel(Communicator* ranks, const OpContext& context, const Choice& choice,
                                    const Slots& slots, Finish finish) {
  return kernel([=, &all = require_ranks(ranks), counts = stored_counts(context, choice)] {
    if (!all.is_muted()) finish(all);
    copy_over(slots, counts);
  });
}

}  // namespace

void add_all_reduce(Handlers& handlers) {
  Communicator* ranks = handlers.ranks();
  const auto compile_start = [ranks](const OpContext& context, const Choice& choice, const Slots& slots) {
    const int64_t bucket = static_cast<const AllReduceStart&>(context.op).bucket;
    return start_kernel(ranks, context, choice, slots,
                        [=](Communicator& all, const auto& numbers) { all.start_sum(bucket, numbers); });
  };
  const auto compile_done = [ranks](const OpContext& context, const Choice& choice, const Slots& slots) {
    const int64_t bucket = static_cast<const AllReduceDone&>(context.op).bucket;
    return done_kernel(ranks, context, choice, slots, [=](Communicator& all) { all.finish_sum(bucket); });
  };
  const auto compile_send = [ranks](const OpContext& context, const Choice& choice, const Slots& slots) {
    const int64_t from = static_cast<const BroadcastStart&>(context.op).from;
    return start_kernel(ranks, context, choice, slots,
                        [=](Communicator& all, const auto& numbers) { all.start_broadcast(from, numbers); });
  };
  const auto compile_sent = [ranks](const OpContext& context, const Choice& choice, const Slots& slots) {
    const int64_t from = static_cast<const BroadcastDone&>(context.op).from;
    return done_kernel(ranks, context, choice, slots, [=](Communicator& all) { all.finish_broadcast(from); });
  };
  const auto compile_decay = [ranks](const OpContext& context, const Choice& choice, const Slots& slots) {
    const Communicator& all = require_ranks(ranks);
    const auto later = static_cast<double>(all.ranks() - 1 - all.rank());
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
  handlers[typeid(DecayByRank)] = {select_each, compile_decay, {}};
}

}  // namespace trainer::cpu
