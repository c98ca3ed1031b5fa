// SPDX-License-Identifier: Apache-2.0
#include "cuda/pooling.h"

#include "core/graph/ops/pool2d.h"
#include "cuda/channels.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

Choice select(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return all_channels_last(context, "windows");
}

/// The geometry of a node's windows; `from` and `to` are the shapes of x and y.
template <class Op>
Windows windows_of(const OpContext& context, const Shape& x, const Shape& y) {
  return Windows(static_cast<const Op&>(context.op).geometry, x, y);
}

std::unique_ptr<Kernel> compile_max(const Gpu& gpu, const OpContext& context, const Choice&,
                                    const Slots& slots) {
  return kernel(context, [windows = windows_of<MaxPool2d>(context, context.inputs[MaxPool2d::kX].shape,
                                                          context.outputs[MaxPool2d::kY].shape),
                          dtype = context.inputs[MaxPool2d::kX].dtype, stream = gpu.stream.get(),
                          x = slots.inputs[MaxPool2d::kX], places = slots.output(MaxPool2d::kPlaces),
                          y = slots.outputs[MaxPool2d::kY]] {
    return launch_max_pool(windows, dtype, *x, *y, optional_at<uint8_t>(places), stream);
  });
}

std::unique_ptr<Kernel> compile_max_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                             const Slots& slots) {
  return kernel(context, [windows = windows_of<MaxPool2dBackward>(
                              context, context.outputs[MaxPool2dBackward::kDx].shape,
                              context.inputs[MaxPool2dBackward::kDy].shape),
                          dtype = context.inputs[MaxPool2dBackward::kDy].dtype, stream = gpu.stream.get(),
                          in = slots.inputs, dx = slots.outputs[MaxPool2dBackward::kDx]] {
    return launch_max_pool_backward(windows, dtype, *in[MaxPool2dBackward::kDy],
                                    at<const uint8_t>(in[MaxPool2dBackward::kPlaces]), *dx, stream);
  });
}

/// A single window over the whole image has too many elements for one thread each.
bool is_global(const Windows& w) {
  return w.kernel_h == w.height && w.kernel_w == w.width && w.padding_h == 0 && w.padding_w == 0;
}

std::unique_ptr<Kernel> compile_average(const Gpu& gpu, const OpContext& context, const Choice&,
                                        const Slots& slots) {
  const Windows windows = windows_of<AvgPool2d>(context, context.inputs[AvgPool2d::kX].shape,
                                                context.outputs[AvgPool2d::kY].shape);
  const Images images{windows.samples, int64_t{windows.height} * windows.width, windows.channels,
                      context.inputs[AvgPool2d::kX].dtype};
  return kernel(context, [=, stream = gpu.stream.get(), x = slots.inputs[AvgPool2d::kX],
                          y = slots.outputs[AvgPool2d::kY]] {
    if (!is_global(windows)) return launch_average_pool(windows, images.dtype, *x, *y, stream);
    return launch_image_sums(images, 1.0f / static_cast<float>(images.pixels), *x, nullptr, *y, stream);
  });
}

std::unique_ptr<Kernel> compile_average_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                                 const Slots& slots) {
  return kernel(
      context,
      [windows = windows_of<AvgPool2dBackward>(context, context.outputs[AvgPool2dBackward::kDx].shape,
                                               context.inputs[AvgPool2dBackward::kDy].shape),
       dtype = context.inputs[AvgPool2dBackward::kDy].dtype, stream = gpu.stream.get(),
       dy = slots.inputs[AvgPool2dBackward::kDy], dx = slots.outputs[AvgPool2dBackward::kDx]] {
        return launch_average_pool_backward(windows, dtype, *dy, *dx, stream);
      });
}

}  // namespace

void add_pooling(Handlers& handlers) {
  handlers[typeid(MaxPool2d)] = {select, compile_max, floats_only};
  handlers[typeid(MaxPool2dBackward)] = {select, compile_max_backward, floats_only};
  handlers[typeid(AvgPool2d)] = {select, compile_average, floats_only};
  handlers[typeid(AvgPool2dBackward)] = {select, compile_average_backward, floats_only};
}

}  // namespace trainer::cuda
