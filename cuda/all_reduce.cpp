// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/all_reduce.h"

#include <cmath>
#include <stdexcept>
#include <vector>

#include "core/graph/ops/all_gather.h"
#include "cuda/nccl_collectives.h"
#include "cuda/optimizer.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

/// Every tensor stays in the layout that it has: all ranks have the same plan.
Choice select_each(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = row_major(context, "nccl");
  for (size_t i = 0; i < inputs.size(); ++i)
    choice.inputs[i] = choice.outputs[i] = inputs[i].value_or(Layout{});
  return choice;
}

std::vector<int64_t> stored_counts(const OpContext& context, const Choice& choice) {
  std::vector<int64_t> counts;
  for (size_t i = 0; i < context.inputs.size(); ++i)
    counts.push_back(stored_elements(choice.inputs[i], context.inputs[i].shape));
  return counts;
}

GpuCollectives& require_collectives(const Gpu& gpu) {
  if (gpu.collectives == nullptr)
    throw std::logic_error("a program for several ranks on a GPU of one process");
  return *gpu.collectives;
}

/// An output that is not where its input is.
cudaError_t copy_over(const Slots& slots, const std::vector<int64_t>& counts, cudaStream_t stream) {
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto* from = at<const float>(slots.inputs[i]);
    auto* to = at<float>(slots.outputs[i]);
    if (from == to) continue;
    const cudaError_t status = cudaMemcpyAsync(to, from, static_cast<size_t>(counts[i]) * sizeof(float),
                                               cudaMemcpyDeviceToDevice, stream);
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

/// start(collectives, numbers) starts a collective over the outputs.
template <class Start>
std::unique_ptr<Kernel> start_kernel(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                     const Slots& slots, Start start) {
  GpuCollectives& all = require_collectives(gpu);
  const std::vector<int64_t> counts = stored_counts(context, choice);
  return kernel(context, [slots, counts, &all, start, numbers = std::vector<std::span<float>>(counts.size()),
                          stream = gpu.stream.get()]() mutable {
    const cudaError_t status = copy_over(slots, counts, stream);
    if (status != cudaSuccess || all.group().skips_collectives()) return status;
    for (size_t i = 0; i < counts.size(); ++i)
      numbers[i] = {at<float>(slots.outputs[i]), static_cast<size_t>(counts[i])};
    start(all, numbers);
    return cudaSuccess;
  });
}

/// wait(collectives) holds up the stream until the collective is done.
template <class Wait>
std::unique_ptr<Kernel> done_kernel(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                    const Slots& slots, Wait wait) {
  GpuCollectives& all = require_collectives(gpu);
  return kernel(context,
                [slots, counts = stored_counts(context, choice), &all, wait, stream = gpu.stream.get()] {
                  if (!all.group().skips_collectives()) wait(all);
                  return copy_over(slots, counts, stream);
                });
}

std::unique_ptr<Kernel> compile_reduce(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                       const Slots& slots) {
  const int64_t bucket = static_cast<const AllReduceStart&>(context.op).bucket;
  return start_kernel(gpu, context, choice, slots, [bucket](Collectives& all, const auto& numbers) {
    all.start_all_reduce(bucket, numbers);
  });
}

std::unique_ptr<Kernel> compile_reduced(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                        const Slots& slots) {
  const int64_t bucket = static_cast<const AllReduceDone&>(context.op).bucket;
  return done_kernel(gpu, context, choice, slots,
                     [bucket](Collectives& all) { all.wait_all_reduce(bucket); });
}

std::unique_ptr<Kernel> compile_broadcast(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                          const Slots& slots) {
  const int64_t root = static_cast<const BroadcastStart&>(context.op).root;
  return start_kernel(gpu, context, choice, slots,
                      [root](Collectives& all, const auto& numbers) { all.start_broadcast(root, numbers); });
}

std::unique_ptr<Kernel> compile_received(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                         const Slots& slots) {
  const int64_t root = static_cast<const BroadcastDone&>(context.op).root;
  return done_kernel(gpu, context, choice, slots, [root](Collectives& all) { all.wait_broadcast(root); });
}

std::unique_ptr<Kernel> compile_gather(const Gpu& gpu, const OpContext& context, const Choice&,
                                       const Slots& slots) {
  const int64_t bytes = bytes_per_element(context.inputs[AllGather::kPart].dtype);
  const auto part = static_cast<size_t>(numel(context.inputs[AllGather::kPart].shape) * bytes),
             whole = static_cast<size_t>(numel(context.outputs[AllGather::kWhole].shape) * bytes);
  return kernel(context, [slots, part, whole, &all = require_collectives(gpu)] {
    all.start_all_gather({at<const std::byte>(slots.inputs[AllGather::kPart]), part},
                         {at<std::byte>(slots.outputs[AllGather::kWhole]), whole});
    all.wait_all_gather();
    return cudaSuccess;
  });
}

std::unique_ptr<Kernel> compile_scatter(const Gpu& gpu, const OpContext& context, const Choice&,
                                        const Slots& slots) {
  const auto whole = static_cast<size_t>(numel(context.inputs[ReduceScatter::kWhole].shape)),
             part = static_cast<size_t>(numel(context.outputs[ReduceScatter::kPart].shape));
  return kernel(context, [slots, part, whole, &all = require_collectives(gpu)] {
    all.start_reduce_scatter({at<const float>(slots.inputs[ReduceScatter::kWhole]), whole},
                             {at<float>(slots.outputs[ReduceScatter::kPart]), part});
    all.wait_reduce_scatter();
    return cudaSuccess;
  });
}

Choice select_rows(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return row_major(context, "nccl");
}

std::unique_ptr<Kernel> compile_decay(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                      const Slots& slots) {
  const ProcessGroup& group = require_collectives(gpu).group();
  const auto later = static_cast<double>(group.size() - 1 - group.rank());
  const auto factor = static_cast<float>(std::pow(static_cast<const DecayByRank&>(context.op).decay, later));
  return kernel(context, [factor, x = slots.inputs[DecayByRank::kX], y = slots.outputs[DecayByRank::kY],
                          count = stored_counts(context, choice)[0], stream = gpu.stream.get()] {
    return launch_multiply(at<const float>(x), factor, at<float>(y), count, stream);
  });
}

}  // namespace

void add_all_reduce(Handlers& handlers) {
  handlers[typeid(AllReduceStart)] = {select_each, compile_reduce, {}};
  handlers[typeid(AllReduceDone)] = {select_each, compile_reduced, {}};
  handlers[typeid(BroadcastStart)] = {select_each, compile_broadcast, {}};
  handlers[typeid(BroadcastDone)] = {select_each, compile_received, {}};
  handlers[typeid(AllGather)] = {select_rows, compile_gather, {}};
  handlers[typeid(ReduceScatter)] = {select_rows, compile_scatter, {}};
  handlers[typeid(DecayByRank)] = {select_each, compile_decay, {}};
}

}  // namespace trainer::cuda
