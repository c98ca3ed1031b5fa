// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/all_reduce.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/engine/process_group.h"
#include "core/engine/start_collective.h"
#include "core/graph/ops/all_gather.h"
#include "core/graph/ops/exchange.h"
#include "core/graph/ops/own_part.h"
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

std::unique_ptr<Kernel> start(ProcessGroup& group, const OpContext& context, const Choice& choice,
                              const Slots& slots) {
  const bool is_in_place = context.op.in_place(0, 0);
  return kernel([=, &group, &collectives = require_collectives(group),
                 copied = is_in_place ? output_bytes(context, choice) : std::vector<int64_t>{},
                 begin = start_of(context, choice, slots)] {
    copy_over(slots, copied);
    begin(collectives, group.skips_collectives());
  });
}

std::unique_ptr<Kernel> finish(ProcessGroup& group, const OpContext& context, const Choice& choice,
                               const Slots& slots) {
  const int64_t number = static_cast<const CollectiveDone&>(context.op).number;
  return kernel([=, &collectives = require_collectives(group), bytes = output_bytes(context, choice)] {
    collectives.wait(number);
    copy_over(slots, bytes);
  });
}

std::unique_ptr<Kernel> decay(const ProcessGroup& group, const OpContext& context, const Choice& choice,
                              const Slots& slots) {
  const auto& op = static_cast<const DecayByRank&>(context.op);
  const auto factor = static_cast<float>(op.factor(group.mesh(), group.rank()));
  const int64_t count = stored_elements(choice.outputs[0], context.outputs[0].shape);
  return kernel([=] {
    const auto* x = at<const float>(slots.inputs[DecayByRank::kX]);
    float* y = at<float>(slots.outputs[DecayByRank::kY]);
    for (int64_t i = 0; i < count; ++i) y[i] = factor * x[i];
  });
}

/// The elements that this rank has of a tensor, in row-major order.
std::unique_ptr<Kernel> take_part(ProcessGroup& group, const OpContext& context, const Choice&,
                                  const Slots& slots) {
  const int64_t bytes = bytes_per_element(context.inputs[OwnPart::kWhole].dtype);
  const int64_t part = numel(context.outputs[OwnPart::kPart].shape) * bytes,
                whole = numel(context.inputs[OwnPart::kWhole].shape) * bytes;
  const int64_t begin =
      std::min(whole, part * position_along(&group, static_cast<const OwnPart&>(context.op).along));
  return kernel([=, own = std::min(part, whole - begin)] {
    const auto* from = at<const std::byte>(slots.inputs[OwnPart::kWhole]) + begin;
    auto* to = at<std::byte>(slots.outputs[OwnPart::kPart]);
    std::copy_n(from, own, to);
    std::fill(to + own, to + part, std::byte{0});
  });
}

std::unique_ptr<Kernel> keep_on_first(ProcessGroup& group, const OpContext& context, const Choice& choice,
                                      const Slots& slots) {
  const int64_t bytes = output_bytes(context, choice)[OnFirstRank::kY];
  const bool is_first = position_along(&group, static_cast<const OnFirstRank&>(context.op).along) == 0;
  return kernel([=] {
    auto* y = at<std::byte>(slots.outputs[OnFirstRank::kY]);
    if (is_first) {
      std::copy_n(at<const std::byte>(slots.inputs[OnFirstRank::kX]), bytes, y);
    } else {
      std::fill_n(y, bytes, std::byte{0});
    }
  });
}

}  // namespace

void add_all_reduce(Handlers& handlers) {
  const auto compiled = [group = handlers.group()](auto compile) {
    return [group, compile](const OpContext& context, const Choice& choice, const Slots& slots) {
      return compile(require_group(group), context, choice, slots);
    };
  };
  handlers[typeid(AllReduceStart)] = {select_each, compiled(start), {}};
  handlers[typeid(BroadcastStart)] = {select_each, compiled(start), {}};
  handlers[typeid(AllGatherStart)] = {select_row_major, compiled(start), {}};
  handlers[typeid(ReduceScatterStart)] = {select_row_major, compiled(start), {}};
  handlers[typeid(ExchangeStart)] = {select_row_major, compiled(start), {}};
  handlers[typeid(CollectiveDone)] = {select_each, compiled(finish), {}};
  handlers[typeid(OwnPart)] = {select_row_major, compiled(take_part), {}};
  handlers[typeid(OnFirstRank)] = {select_each, compiled(keep_on_first), {}};
  handlers[typeid(DecayByRank)] = {select_each, compiled(decay), {}};
}

}  // namespace trainer::cpu
