// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/gated.h"

#include "cuda/gated.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

Choice select(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  return same_layout(context, inputs, "loop");
}

/// No layout of the GPU has padding, so the loop runs over the elements as they are stored.
int64_t count(const OpContext& context) {
  return numel(context.inputs[0].shape);
}

std::unique_ptr<Kernel> compile(const Gpu& gpu, const OpContext& context, const Choice&, const Slots& slots) {
  return kernel(context, [f = static_cast<const Gated&>(context.op).function,
                          dtype = context.inputs[Gated::kX].dtype, n = count(context),
                          stream = gpu.stream.get(), in = slots.inputs, y = slots.outputs[Gated::kY]] {
    return launch_gated(f, dtype, *in[Gated::kGate], *in[Gated::kX], *y, n, stream);
  });
}

std::unique_ptr<Kernel> compile_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                         const Slots& slots) {
  return kernel(
      context, [f = static_cast<const GatedBackward&>(context.op).function,
                dtype = context.inputs[GatedBackward::kDy].dtype, n = count(context),
                stream = gpu.stream.get(), in = slots.inputs, dgate = slots.outputs[GatedBackward::kDgate],
                dx = slots.outputs[GatedBackward::kDx]] {
        return launch_gated_backward(f, dtype, *in[GatedBackward::kDy], *in[GatedBackward::kGate],
                                     *in[GatedBackward::kX], *dgate, optional_at<void>(dx), n, stream);
      });
}

}  // namespace

void add_gated(Handlers& handlers) {
  handlers[typeid(Gated)] = {select, compile, floats_only};
  handlers[typeid(GatedBackward)] = {select, compile_backward, floats_only};
}

}  // namespace trainer::cuda
