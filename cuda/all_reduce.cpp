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
  for (size_t i = 0; i < context.outputs.size(); ++i)
    choice.inputs[i] = choice.outputs[i] = inputs[i].value_or(Layout{});
  return choice;
}

/// Of the outputs.
std::vector<size_t> stored_bytes(const OpContext& context, const Choice& choice) {
  std::vector<size_t> bytes;
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    const TensorSpec& output = context.outputs[i];
    bytes.push_back(static_cast<size_t>(stored_elements(choice.outputs[i], output.shape) *
                                        bytes_per_element(output.dtype)));
  }
  return bytes;
}

GpuCollectives& require_collectives(const Gpu& gpu) {
  if (gpu.collectives == nullptr)
    throw std::logic_error("a program for several ranks on a GPU of one process");
  return *gpu.collectives;
}

/// Outputs that are not where their inputs are.
cudaError_t copy_over(const Slots& slots, const std::vector<size_t>& bytes, cudaStream_t stream) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto* from = at<const std::byte>(slots.inputs[i]);
    auto* to = at<std::byte>(slots.outputs[i]);
    if (from == to) continue;
    const cudaError_t status = cudaMemcpyAsync(to, from, bytes[i], cudaMemcpyDeviceToDevice, stream);
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

/// start(collectives, numbers) starts a collective over the outputs.
template <class Start>
std::unique_ptr<Kernel> start_kernel(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                     const Slots& slots, Start start) {
  GpuCollectives& all = require_collectives(gpu);
  const std::vector<size_t> bytes = stored_bytes(context, choice);
  return kernel(context, [slots, bytes, &all, start, numbers = std::vector<std::span<float>>(bytes.size()),
                          stream = gpu.stream.get()]() mutable {
    const cudaError_t status = copy_over(slots, bytes, stream);
    if (status != cudaSuccess || all.group().skips_collectives()) return status;
    for (size_t i = 0; i < bytes.size(); ++i)
      numbers[i] = {at<float>(slots.outputs[i]), bytes[i] / sizeof(float)};
    start(all, numbers);
    return cudaSuccess;
  });
}

std::unique_ptr<Kernel> start_reduce(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                     const Slots& slots) {
  const auto& op = static_cast<const AllReduceStart&>(context.op);
  return start_kernel(gpu, context, choice, slots,
                      [number = op.number, axis = op.axis](Collectives& all, const auto& numbers) {
                        all.start_all_reduce(number, axis, numbers);
                      });
}

std::unique_ptr<Kernel> start_broadcast(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                        const Slots& slots) {
  const auto& op = static_cast<const BroadcastStart&>(context.op);
  return start_kernel(gpu, context, choice, slots,
                      [number = op.number, root = op.root](Collectives& all, const auto& numbers) {
                        all.start_broadcast(number, root, numbers);
                      });
}

size_t bytes_of(const TensorSpec& spec) {
  return static_cast<size_t>(numel(spec.shape) * bytes_per_element(spec.dtype));
}

std::unique_ptr<Kernel> start_gather(const Gpu& gpu, const OpContext& context, const Choice&,
                                     const Slots& slots) {
  const auto& op = static_cast<const AllGatherStart&>(context.op);
  std::vector<Gathered> tensors(context.inputs.size());
  std::vector<size_t> parts, wholes;
  for (const TensorSpec& part : context.inputs) parts.push_back(bytes_of(part));
  for (const TensorSpec& whole : context.outputs) wholes.push_back(bytes_of(whole));
  return kernel(context, [slots, parts, wholes, tensors, number = op.number, axis = op.axis,
                          &all = require_collectives(gpu)]() mutable {
    for (size_t i = 0; i < parts.size(); ++i)
      tensors[i] = {.own = {at<const std::byte>(slots.inputs[i]), parts[i]},
                    .whole = {at<std::byte>(slots.outputs[i]), wholes[i]}};
    all.start_all_gather(number, axis, tensors);
    return cudaSuccess;
  });
}

std::unique_ptr<Kernel> start_scatter(const Gpu& gpu, const OpContext& context, const Choice&,
                                      const Slots& slots) {
  const auto& op = static_cast<const ReduceScatterStart&>(context.op);
  std::vector<Scattered> tensors(context.inputs.size());
  std::vector<size_t> wholes;
  for (const TensorSpec& whole : context.inputs) wholes.push_back(static_cast<size_t>(numel(whole.shape)));
  return kernel(context, [slots, wholes, tensors, parts = op.parts, number = op.number, axis = op.axis,
                          &all = require_collectives(gpu)]() mutable {
    for (size_t i = 0; i < wholes.size(); ++i)
      tensors[i] = {.own = {at<float>(slots.outputs[i]), static_cast<size_t>(parts[i])},
                    .whole = {at<const float>(slots.inputs[i]), wholes[i]}};
    all.start_reduce_scatter(number, axis, tensors);
    return cudaSuccess;
  });
}

/// Holds up the stream until the collective is done.
std::unique_ptr<Kernel> finish(const Gpu& gpu, const OpContext& context, const Choice& choice,
                               const Slots& slots) {
  return kernel(context,
                [slots, bytes = stored_bytes(context, choice), &all = require_collectives(gpu),
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
  const auto later = static_cast<double>(group.size() - 1 - group.rank());
  const auto factor = static_cast<float>(std::pow(static_cast<const DecayByRank&>(context.op).decay, later));
  return kernel(context, [factor, x = slots.inputs[DecayByRank::kX], y = slots.outputs[DecayByRank::kY],
                          count = stored_elements(choice.outputs[0], context.outputs[0].shape),
                          stream = gpu.stream.get()] {
    return launch_multiply(at<const float>(x), factor, at<float>(y), count, stream);
  });
}

}  // namespace

void add_all_reduce(Handlers& handlers) {
  handlers[typeid(AllReduceStart)] = {select_each, start_reduce, {}};
  handlers[typeid(BroadcastStart)] = {select_each, start_broadcast, {}};
  handlers[typeid(AllGatherStart)] = {select_rows, start_gather, {}};
  handlers[typeid(ReduceScatterStart)] = {select_rows, start_scatter, {}};
  handlers[typeid(CollectiveDone)] = {select_each, finish, {}};
  handlers[typeid(DecayByRank)] = {select_each, compile_decay, {}};
}

}  // namespace trainer::cuda
