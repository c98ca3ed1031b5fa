// SPDX-License-Identifier: Apache-2.0
#include "cuda/movement.h"

#include <stdexcept>

#include "core/graph/ops/assign.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/concat.h"
#include "core/graph/ops/rearrange.h"
#include "core/graph/ops/reorder.h"
#include "core/graph/ops/zeros.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

/// Whole numbers can only be moved without conversion.
std::optional<std::string> why_not_reorder(const Gpu& gpu, const OpContext& context) {
  return context.inputs[0].dtype == DType::i32 ? floats_only(gpu, context) : std::nullopt;
}

Choice select_assign(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  return same_layout(context, {inputs[Assign::kState] ? inputs[Assign::kState] : inputs[Assign::kValue]},
                     "copy");
}

std::unique_ptr<Kernel> compile_assign(const Gpu& gpu, const OpContext& context, const Choice&,
                                       const Slots& slots) {
  const auto bytes = static_cast<size_t>(numel(context.inputs[Assign::kState].shape) *
                                         bytes_per_element(context.inputs[Assign::kState].dtype));
  return kernel(context, [=, state = slots.inputs[Assign::kState], value = slots.inputs[Assign::kValue],
                          stream = gpu.stream.get()] {
    return cudaMemcpyAsync(*state, *value, bytes, cudaMemcpyDeviceToDevice, stream);
  });
}

/// Between row-major order and that with gaps between rows.
std::unique_ptr<Kernel> compile_move_rows(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                          const Slots& slots) {
  const TensorSpec &x = context.inputs[Reorder::kX], &y = context.outputs[Reorder::kY];
  const int64_t columns = x.shape.back(), rows = numel(x.shape) / columns;
  const auto step = [&](const Layout& layout) {
    return layout.row_major() ? columns : layout.strides[layout.strides.size() - 2];
  };
  return kernel(context, [=, read = x.dtype, written = y.dtype, x_step = step(choice.inputs[Reorder::kX]),
                          y_step = step(choice.outputs[Reorder::kY]), stream = gpu.stream.get(),
                          from = slots.inputs[Reorder::kX], to = slots.outputs[Reorder::kY]] {
    return launch_move_rows(read, written, *from, x_step, *to, y_step, rows, columns, stream);
  });
}

/// Between row-major order and channels last, in whichever types the tensors have.
std::unique_ptr<Kernel> compile_reorder(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                        const Slots& slots) {
  const Shape& shape = context.inputs[Reorder::kX].shape;
  const Layout &from = choice.inputs[Reorder::kX], &to = choice.outputs[Reorder::kY];
  if (shape.size() < 4) return compile_move_rows(gpu, context, choice, slots);
  const Layout last = channels_last(shape);
  const bool to_last = from.row_major() && to == last, from_last = from == last && to.row_major();
  if (!to_last && !from_last) throw std::logic_error("a layout that the GPU does not have");
  const int64_t channels = shape[1], area = shape[2] * shape[3];
  return kernel(context,
                [=, rows = to_last ? channels : area, columns = to_last ? area : channels,
                 read = context.inputs[Reorder::kX].dtype, written = context.outputs[Reorder::kY].dtype,
                 stream = gpu.stream.get(), x = slots.inputs[Reorder::kX], y = slots.outputs[Reorder::kY]] {
                  return launch_transpose(read, written, *x, *y, shape[0], rows, columns, stream);
                });
}

/// A cast changes the layout too if planning requires it.
std::unique_ptr<Kernel> compile_cast(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                     const Slots& slots) {
  if (choice.inputs[Cast::kX] != choice.outputs[Cast::kY])
    return compile_reorder(gpu, context, choice, slots);
  return kernel(context,
                [count = stored_elements(choice.inputs[Cast::kX], context.inputs[Cast::kX].shape),
                 from = context.inputs[Cast::kX].dtype, to = context.outputs[Cast::kY].dtype,
                 stream = gpu.stream.get(), x = slots.inputs[Cast::kX],
                 y = slots.outputs[Cast::kY]] { return launch_cast(from, to, *x, *y, count, stream); });
}

/// Along the channels, images are joined and split with their channels last.
bool along_channels(const OpContext& context, int64_t axis) {
  return axis == 1 && context.inputs[0].shape.size() == 4;
}

Choice select_parts(const OpContext& context, int64_t axis) {
  return along_channels(context, axis) ? all_channels_last(context, "pieces") : row_major(context, "pieces");
}

Choice select_concat(const Gpu&, const OpContext& context, const OpenLayouts&) {
  Choice choice = select_parts(context, static_cast<const Concat&>(context.op).axis);
  choice.kernels = static_cast<int>(context.inputs.size());
  return choice;
}

Choice select_slice(const Gpu&, const OpContext& context, const OpenLayouts&) {
  Choice choice = select_parts(context, static_cast<const Slice&>(context.op).axis);
  choice.again_bytes = bytes_of(context.outputs[Slice::kY]) - bytes_of(context.inputs[Slice::kX]);
  return choice;
}

/// A tensor around `axis`, as it is stored: `outer` pieces of `dimension * inner` bytes.
struct Around {
  int64_t outer = 1, inner = 1;
  Around(const OpContext& context, const TensorSpec& spec, int64_t axis) {
    const Shape& shape = spec.shape;
    inner = bytes_per_element(spec.dtype);
    if (along_channels(context, axis)) {
      outer = shape[0] * shape[2] * shape[3];
      return;
    }
    for (size_t d = 0; d < shape.size(); ++d) {
      if (d < static_cast<size_t>(axis)) outer *= shape[d];
      if (d > static_cast<size_t>(axis)) inner *= shape[d];
    }
  }
};

std::unique_ptr<Kernel> compile_concat(const Gpu& gpu, const OpContext& context, const Choice&,
                                       const Slots& slots) {
  const int64_t axis = static_cast<const Concat&>(context.op).axis;
  const auto along = static_cast<size_t>(axis);
  const Around y(context, context.outputs[Concat::kY], axis);
  std::vector<Pieces> parts;
  for (const TensorSpec& input : context.inputs) {
    const int64_t length = input.shape[along] * y.inner;
    parts.push_back({y.outer, length, length, context.outputs[Concat::kY].shape[along] * y.inner});
  }
  return kernel(context, [=, stream = gpu.stream.get()] {
    char* to = at<char>(slots.outputs[Concat::kY]);
    cudaError_t status = cudaSuccess;
    for (size_t i = 0; i < parts.size() && status == cudaSuccess; to += parts[i++].length) {
      status = launch_copy(parts[i], *slots.inputs[i], to, stream);
    }
    return status;
  });
}

std::unique_ptr<Kernel> compile_slice(const Gpu& gpu, const OpContext& context, const Choice&,
                                      const Slots& slots) {
  const auto& op = static_cast<const Slice&>(context.op);
  const Around x(context, context.inputs[Slice::kX], op.axis);
  const int64_t length = op.length * x.inner,
                step = context.inputs[Slice::kX].shape[static_cast<size_t>(op.axis)] * x.inner;
  return kernel(context,
                [pieces = Pieces{x.outer, length, step, length}, skip = op.begin * x.inner,
                 stream = gpu.stream.get(), from = slots.inputs[Slice::kX], to = slots.outputs[Slice::kY]] {
                  return launch_copy(pieces, at<const char>(from) + skip, *to, stream);
                });
}

Choice select_pad(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return select_parts(context, static_cast<const Pad&>(context.op).axis);
}

std::unique_ptr<Kernel> compile_pad(const Gpu& gpu, const OpContext& context, const Choice&,
                                    const Slots& slots) {
  const auto& op = static_cast<const Pad&>(context.op);
  const Around x(context, context.inputs[Pad::kX], op.axis);
  const int64_t length = context.inputs[Pad::kX].shape[static_cast<size_t>(op.axis)] * x.inner,
                row = length + (op.before + op.after) * x.inner;
  return kernel(context,
                [pieces = Pieces{x.outer, length, length, row}, before = op.before * x.inner,
                 stream = gpu.stream.get(), from = slots.inputs[Pad::kX],
                 to = slots.outputs[Pad::kY]] { return launch_pad(pieces, before, *from, *to, stream); });
}

Choice select_zeros(const Gpu&, const OpContext& context, const OpenLayouts&) {
  Choice choice = row_major(context, "one pass");
  choice.kernels = parameter_tables(context.outputs.size());
  return choice;
}

std::unique_ptr<Kernel> compile_zeros(const Gpu& gpu, const OpContext& context, const Choice&,
                                      const Slots& slots) {
  std::vector<TensorPointers> all(context.outputs.size());
  for (size_t i = 0; i < all.size(); ++i) all[i].count = numel(context.outputs[i].shape);
  return kernel(context, [=, stream = gpu.stream.get()]() mutable {
    for (size_t i = 0; i < all.size(); ++i) all[i].y = *slots.outputs[i];
    return launch_clear_all(all, stream);
  });
}

}  // namespace

void add_movement(Handlers& handlers) {
  auto never = [](const Gpu&, const OpContext&, const OpenLayouts&) -> Choice {
    throw std::logic_error("planning chooses the layouts of a reorder");
  };
  handlers[typeid(Reorder)] = {never, compile_reorder, why_not_reorder};
  // Between equal layouts, which may have gaps: these are converted too.
  handlers[typeid(Cast)] = {[](const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
                              Choice choice = row_major(context, "loop");
                              choice.inputs[Cast::kX] = choice.outputs[Cast::kY] =
                                  inputs[0].value_or(Layout{});
                              return choice;
                            },
                            compile_cast, floats_only};
  handlers[typeid(Assign)] = {select_assign, compile_assign, {}};
  handlers[typeid(Concat)] = {select_concat, compile_concat, {}};
  handlers[typeid(Pad)] = {select_pad, compile_pad, {}};
  handlers[typeid(Slice)] = {select_slice, compile_slice, {}};
  handlers[typeid(Zeros)] = {select_zeros, compile_zeros, {}};
}

}  // namespace trainer::cuda
