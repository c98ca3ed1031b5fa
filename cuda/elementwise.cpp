// SPDX-License-Identifier: Apache-2.0
#include "cuda/elementwise.h"

#include "core/graph/ops/binary.h"
#include "core/graph/ops/lerp.h"
#include "core/graph/ops/unary.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

Choice select(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  return same_layout(context, inputs, "loop");
}

Choice select_lerp(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  return same_layout(context, {inputs[Lerp::kOld] ? inputs[Lerp::kOld] : inputs[Lerp::kFresh]}, "loop");
}

/// No layout of the GPU has padding, so an element-wise loop runs over the elements as they are stored.
int64_t count(const OpContext& context) {
  return numel(context.inputs[0].shape);
}

std::unique_ptr<Kernel> compile_unary(const Gpu& gpu, const OpContext& context, const Choice&,
                                      const Slots& slots) {
  return kernel(context,
                [f = static_cast<const Unary&>(context.op).function, dtype = context.inputs[Unary::kX].dtype,
                 n = count(context), stream = gpu.stream.get(), x = slots.inputs[Unary::kX],
                 y = slots.outputs[Unary::kY]] { return launch_unary(f, dtype, *x, *y, n, stream); });
}

std::unique_ptr<Kernel> compile_unary_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                               const Slots& slots) {
  return kernel(context,
                [f = static_cast<const UnaryBackward&>(context.op).function,
                 dtype = context.inputs[UnaryBackward::kDy].dtype, n = count(context),
                 stream = gpu.stream.get(), in = slots.inputs, dx = slots.outputs[UnaryBackward::kDx]] {
                  return launch_unary_backward(f, dtype, *in[UnaryBackward::kDy], *in[UnaryBackward::kSaved],
                                               *dx, n, stream);
                });
}

std::unique_ptr<Kernel> compile_binary(const Gpu& gpu, const OpContext& context, const Choice&,
                                       const Slots& slots) {
  const auto& op = static_cast<const Binary&>(context.op);
  return kernel(
      context, [adds = op.kind == Binary::Kind::add, relu = op.relu, ceiling = static_cast<float>(op.ceiling),
                dtype = context.inputs[Binary::kA].dtype, n = count(context), stream = gpu.stream.get(),
                in = slots.inputs, y = slots.outputs[Binary::kY]] {
        const void *const a = *in[Binary::kA], *const b = *in[Binary::kB];
        if (relu) return launch_add_relu(ceiling, dtype, a, b, *y, n, stream);
        return (adds ? launch_add : launch_mul)(dtype, a, b, *y, n, stream);
      });
}

std::unique_ptr<Kernel> compile_lerp(const Gpu& gpu, const OpContext& context, const Choice&,
                                     const Slots& slots) {
  const auto& op = static_cast<const Lerp&>(context.op);
  return kernel(context,
                [share = static_cast<float>(op.share), scale = static_cast<float>(op.scale),
                 dtype = context.inputs[Lerp::kOld].dtype, n = count(context), stream = gpu.stream.get(),
                 in = slots.inputs, skip = slots.inputs[Lerp::kSkip], y = slots.outputs[Lerp::kY]] {
                  return launch_lerp(share, scale, optional_at<const float>(skip), dtype, *in[Lerp::kOld],
                                     *in[Lerp::kFresh], *y, n, stream);
                });
}

}  // namespace

void add_elementwise(Handlers& handlers) {
  handlers[typeid(Unary)] = {select, compile_unary, floats_only};
  handlers[typeid(UnaryBackward)] = {select, compile_unary_backward, floats_only};
  handlers[typeid(Binary)] = {select, compile_binary, floats_only};
  handlers[typeid(Lerp)] = {select_lerp, compile_lerp, floats_only};
}

}  // namespace trainer::cuda
