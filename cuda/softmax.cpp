// SPDX-License-Identifier: Apache-2.0
#include "cuda/softmax.h"

#include "core/graph/ops/softmax.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

/// With their channels last, pixels of images are rows too.
Choice select(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return all_channels_last(context, "rows");
}

std::unique_ptr<Kernel> compile(const Gpu& gpu, const OpContext& context, const Choice&, const Slots& slots) {
  return kernel(context, [=, log = static_cast<const Softmax&>(context.op).log,
                          e = SoftmaxSizes(context.inputs[Softmax::kX].shape), stream = gpu.stream.get()] {
    return launch_softmax(log, e.rows * e.step, e.classes, at<const float>(slots.inputs[Softmax::kX]),
                          at<float>(slots.outputs[Softmax::kY]), stream);
  });
}

std::unique_ptr<Kernel> compile_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                         const Slots& slots) {
  return kernel(context,
                [=, log = static_cast<const SoftmaxBackward&>(context.op).log,
                 e = SoftmaxSizes(context.inputs[SoftmaxBackward::kDy].shape), stream = gpu.stream.get()] {
                  return launch_softmax_backward(log, e.rows * e.step, e.classes,
                                                 at<const float>(slots.inputs[SoftmaxBackward::kDy]),
                                                 at<const float>(slots.inputs[SoftmaxBackward::kY]),
                                                 at<float>(slots.outputs[SoftmaxBackward::kDx]), stream);
                });
}

}  // namespace

void add_softmax(Handlers& handlers) {
  handlers[typeid(Softmax)] = {select, compile, {}};
  handlers[typeid(SoftmaxBackward)] = {select, compile_backward, {}};
}

}  // namespace trainer::cuda
