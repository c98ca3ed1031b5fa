// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/all_reduce.h"

#include <cmath>
#include <stdexcept>
#include <vector>

#include "core/engine/start_collective.h"
#include "core/graph/ops/all_gather.h"
#include "core/graph/ops/exchange.h"
#include "core/graph/ops/own_part.h"
#include "cuda/nccl_collectives.h"
#include "cuda/optimizer.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

/// Every tensor stays in the layout that it has: all ranks have the same plan.
Choice select_each(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = row_major(context, "nccl");
  for (size_t i = 0; i < context.outputs.size(); ++i)
    choice.inputs[i] = choice.outputs[i] = inputs[i].value_or(Layout{});
  return choice;
}

GpuCollectives& require_collectives(const Gpu& gpu) {
  if (gpu.collectives == nullptr)
    throw std::logic_error("a program for several ranks on a GPU of one process");
  return *gpu.collectives;
}

/// Outputs that are not where their inputs are.
cudaError_t copy_over(const Slots& slots, const std::vector<int64_t>& bytes, cudaStream_t stream) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto* from = at<const std::byte>(slots.inputs[i]);
    auto* to = at<std::byte>(slots.outputs[i]);
    if (from == to) continue;
    const cudaError_t status =
        cudaMemcpyAsync(to, from, static_cast<size_t>(bytes[i]), cudaMemcpyDeviceToDevice, stream);
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

std::unique_ptr<Kernel> start(const Gpu& gpu, const OpContext& context, const Choice& choice,
                              const Slots& slots) {
  const bool is_in_place = context.op.in_place(0, 0);
  return kernel(
      context,
      [slots, copied = is_in_place ? output_bytes(context, choice) : std::vector<int64_t>{},
       begin = start_of(context, choice, slots), &all = require_collectives(gpu), stream = gpu.stream.get()] {
        const cudaError_t status = copy_over(slots, copied, stream);
        if (status == cudaSuccess) begin(all, all.group().skips_collectives());
        return status;
      });
}

/// Holds up the stream until the collective is done.
std::unique_ptr<Kernel> finish(const Gpu& gpu, const OpContext& context, const Choice& choice,
                               const Slots& slots) {
  return kernel(context,
                [slots, bytes = output_bytes(context, choice), &all = require_collectives(gpu),
                 number = static_cast<const CollectiveDone&>(context.op).number, stream = gpu.stream.get()] {
                  all.wait(number);
                  return copy_over(slots, bytes, stream);
                });
}

Choice select_rows(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return row_major(context, "nccl");
}

std::unique_ptr<Kernel> compile_decay(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                      const Slots& slots) {
  const ProcessGroup& group = require_collectives(gpu).group();
  const auto& op = static_cast<const DecayByRank&>(context.op);
  const auto factor = static_cast<float>(op.factor(group.mesh(), group.rank()));
  return kernel(context, [factor, x = slots.inputs[DecayByRank::kX], y = slots.outputs[DecayByRank::kY],
                          count = stored_elements(choice.outputs[0], context.outputs[0].shape),
                          stream = gpu.stream.get()] {
    return launch_multiply(at<const float>(x), factor, at<float>(y), count, stream);
  });
}

/// Whether the ranks' parts hold more than the whole.
bool has_padding(const OpContext& context) {
  return numel(context.inputs[OwnPart::kWhole].shape) <
         static_cast<const OwnPart&>(context.op).along.ranks * numel(context.outputs[OwnPart::kPart].shape);
}

/// Every rank has the same plan, though only the last ones have padding.
Choice select_own_part(const Gpu& gpu, const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_rows(gpu, context, inputs);
  choice.kernels = has_padding(context) ? 2 : 1;
  return choice;
}

/// The elements that this rank has of a tensor, in row-major order.
std::unique_ptr<Kernel> compile_own_part(const Gpu& gpu, const OpContext& context, const Choice&,
                                         const Slots& slots) {
  const int64_t part = bytes_of(context.outputs[OwnPart::kPart]),
                whole = bytes_of(context.inputs[OwnPart::kWhole]);
  const int64_t begin =
      std::min(whole, part * gpu.position_along(static_cast<const OwnPart&>(context.op).along));
  return kernel(context, [=, is_padded = has_padding(context), own = std::min(part, whole - begin),
                          stream = gpu.stream.get()] {
    auto* to = at<std::byte>(slots.outputs[OwnPart::kPart]);
    if (is_padded) {
      const cudaError_t status = cudaMemsetAsync(to, 0, static_cast<size_t>(part), stream);
      if (status != cudaSuccess) return status;
    }
    // As many operations as on other ranks, whose plan is this one.
    if (own == 0) return cudaMemsetAsync(to, 0, static_cast<size_t>(part), stream);
    return cudaMemcpyAsync(to, at<const std::byte>(slots.inputs[OwnPart::kWhole]) + begin,
                           static_cast<size_t>(own), cudaMemcpyDeviceToDevice, stream);
  });
}

std::unique_ptr<Kernel> compile_on_first_rank(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                              const Slots& slots) {
  const bool is_first = gpu.position_along(static_cast<const OnFirstRank&>(context.op).along) == 0;
  return kernel(context, [=, bytes = output_bytes(context, choice), stream = gpu.stream.get()] {
    if (is_first) return copy_over(slots, bytes, stream);
    return cudaMemsetAsync(*slots.outputs[OnFirstRank::kY], 0, static_cast<size_t>(bytes[OnFirstRank::kY]),
                           stream);
  });
}

}  // namespace

int64_t Gpu::position_along(const std::optional<Along>& along) const {
  return trainer::position_along(collectives == nullptr ? nullptr : &collectives->group(), along);
}

void add_all_reduce(Handlers& handlers) {
  handlers[typeid(AllReduceStart)] = {select_each, start, {}};
  handlers[typeid(BroadcastStart)] = {select_each, start, {}};
  handlers[typeid(AllGatherStart)] = {select_rows, start, {}};
  handlers[typeid(ReduceScatterStart)] = {select_rows, start, {}};
  handlers[typeid(ExchangeStart)] = {select_rows, start, {}};
  handlers[typeid(CollectiveDone)] = {select_each, finish, {}};
  handlers[typeid(OwnPart)] = {select_own_part, compile_own_part, {}};
  handlers[typeid(OnFirstRank)] = {select_each, compile_on_first_rank, {}};
  handlers[typeid(DecayByRank)] = {select_each, compile_decay, {}};
}

}  // namespace trainer::cuda
