// SPDX-License-Identifier: Apache-2.0
#include "cuda/channels.h"

#include "core/graph/ops/channels.h"
#include "cuda/bias.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

Images images_of(const TensorSpec& spec) {
  const Shape& shape = spec.shape;
  return {shape[0], shape[2] * shape[3], shape[1], spec.dtype};
}

Choice select(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return all_channels_last(context, "rows");
}

std::unique_ptr<Kernel> compile_scale(const Gpu& gpu, const OpContext& context, const Choice&,
                                      const Slots& slots) {
  return kernel(context, [images = images_of(context.inputs[ScaleChannels::kX]), stream = gpu.stream.get(),
                          in = slots.inputs, y = slots.outputs[ScaleChannels::kY]] {
    return launch_scale_channels(images, *in[ScaleChannels::kX], *in[ScaleChannels::kFactors], *y, stream);
  });
}

std::unique_ptr<Kernel> compile_scale_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                               const Slots& slots) {
  return kernel(context,
                [images = images_of(context.inputs[ScaleChannelsBackward::kDy]), stream = gpu.stream.get(),
                 in = slots.inputs, ds = slots.outputs[ScaleChannelsBackward::kDfactors]] {
                  return launch_image_sums(images, 1, *in[ScaleChannelsBackward::kDy],
                                           *in[ScaleChannelsBackward::kX], *ds, stream);
                });
}

std::unique_ptr<Kernel> compile_add(const Gpu& gpu, const OpContext& context, const Choice&,
                                    const Slots& slots) {
  return kernel(context, [images = images_of(context.inputs[AddChannels::kX]),
                          b_dtype = context.inputs[AddChannels::kBias].dtype, stream = gpu.stream.get(),
                          in = slots.inputs, y = slots.outputs[AddChannels::kY]] {
    return launch_add_channels(images, b_dtype, *in[AddChannels::kX], *in[AddChannels::kBias], *y, stream);
  });
}

Matrix rows_of(const TensorSpec& spec) {
  const Images images = images_of(spec);
  return {images.samples * images.pixels, images.channels, images.dtype};
}

Choice select_add_backward(const Gpu&, const OpContext& context, const OpenLayouts&) {
  Choice choice = all_channels_last(context, "rows");
  choice.workspace_bytes = column_sums_workspace(rows_of(context.inputs[AddChannelsBackward::kDy]));
  choice.kernels = kColumnSumsKernels;
  return choice;
}

std::unique_ptr<Kernel> compile_add_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                             const Slots& slots) {
  return kernel(context, [rows = rows_of(context.inputs[AddChannelsBackward::kDy]),
                          db_dtype = context.outputs[AddChannelsBackward::kDbias].dtype,
                          stream = gpu.stream.get(), dy = slots.inputs[AddChannelsBackward::kDy],
                          db = slots.outputs[AddChannelsBackward::kDbias], workspace = slots.workspace] {
    return launch_column_sums(rows, *dy, *db, db_dtype, *workspace, stream);
  });
}

}  // namespace

void add_channels(Handlers& handlers) {
  handlers[typeid(ScaleChannels)] = {select, compile_scale, floats_only};
  handlers[typeid(ScaleChannelsBackward)] = {select, compile_scale_backward, floats_only};
  handlers[typeid(AddChannels)] = {select, compile_add, floats_only};
  handlers[typeid(AddChannelsBackward)] = {select_add_backward, compile_add_backward, floats_only};
}

}  // namespace trainer::cuda
