// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/all_reduce.h"

#include <cmath>
#include <stdexcept>
#include <vector>

#include "cuda/communication.h"
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

Communication& require_ranks(const Gpu& gpu) {
  if (gpu.communication == nullptr)
    throw std::logic_error("a program for several ranks on a GPU that has none");
  return *gpu.communication;
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

std::unique_ptr<Kernel> compile_start(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                      const Slots& slots) {
  Communication& all = require_ranks(gpu);
  const std::vector<int64_t> counts = stored_counts(context, choice);
  return kernel(
      context, [slots, counts, &all, bucket = static_cast<const AllReduceStart&>(context.op).bucket,
                numbers = std::vector<std::span<float>>(counts.size()), stream = gpu.stream.get()]() mutable {
        const cudaError_t status = copy_over(slots, counts, stream);
        if (status != cudaSuccess || all.ranks().is_muted()) return status;
        for (size_t i = 0; i < counts.size(); ++i)
          numbers[i] = {at<float>(slots.outputs[i]), static_cast<size_t>(counts[i])};
        all.start(bucket, numbers);
        return cudaSuccess;
      });
}

std::unique_ptr<Kernel> compile_done(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                     const Slots& slots) {
  Communication& all = require_ranks(gpu);
  return kernel(context,
                [slots, counts = stored_counts(context, choice), &all,
                 bucket = static_cast<const AllReduceDone&>(context.op).bucket, stream = gpu.stream.get()] {
                  if (!all.ranks().is_muted()) all.finish(bucket);
                  return copy_over(slots, counts, stream);
                });
}

std::unique_ptr<Kernel> compile_decay(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                      const Slots& slots) {
  const Communicator& ranks = require_ranks(gpu).ranks();
  const auto later = static_cast<double>(ranks.ranks() - 1 - ranks.rank());
  const auto factor = static_cast<float>(std::pow(static_cast<const DecayByRank&>(context.op).decay, later));
  return kernel(context, [factor, x = slots.inputs[DecayByRank::kX], y = slots.outputs[DecayByRank::kY],
                          count = stored_counts(context, choice)[0], stream = gpu.stream.get()] {
    return launch_multiply(at<const float>(x), factor, at<float>(y), count, stream);
  });
}

}  // namespace

void add_all_reduce(Handlers& handlers) {
  handlers[typeid(AllReduceStart)] = {select_each, compile_start, {}};
  handlers[typeid(AllReduceDone)] = {select_each, compile_done, {}};
  handlers[typeid(DecayByRank)] = {select_each, compile_decay, {}};
}

}  // namespace trainer::cuda
