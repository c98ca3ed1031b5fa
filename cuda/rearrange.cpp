// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/rearrange.h"

#include "cuda/bias.h"
#include "cuda/movement.h"
#include "cuda/table.h"
#include "cuda/table_rows.h"

namespace trainer::cuda {
namespace {

std::unique_ptr<Kernel> compile_pad(const Gpu& gpu, const OpContext& context, const Choice&,
                                    const Slots& slots) {
  const auto& op = static_cast<const Pad&>(context.op);
  const Shape& shape = context.inputs[0].shape;
  int64_t outer = 1, inner = bytes_per_element(context.inputs[0].dtype);
  for (int64_t d = 0; d < op.axis; ++d) outer *= shape[static_cast<size_t>(d)];
  for (size_t d = static_cast<size_t>(op.axis) + 1; d < shape.size(); ++d) inner *= shape[d];
  const int64_t length = shape[static_cast<size_t>(op.axis)] * inner,
                row = length + (op.before + op.after) * inner;
  return kernel(context, [pieces = Pieces{outer, length, length, row}, before = op.before * inner,
                          all = static_cast<size_t>(outer * row), stream = gpu.stream.get(),
                          x = slots.inputs[0], y = slots.outputs[0]] {
    const cudaError_t status = cudaMemsetAsync(*y, 0, all, stream);
    return status != cudaSuccess ? status : launch_copy(pieces, *x, at<char>(y) + before, stream);
  });
}

std::unique_ptr<Kernel> compile_transpose(const Gpu& gpu, const OpContext& context, const Choice&,
                                          const Slots& slots) {
  const TransposedExtents e(static_cast<const Transpose&>(context.op), context.inputs[0].shape);
  const DType dtype = context.inputs[0].dtype;
  return kernel(context, [=, stream = gpu.stream.get(), x = slots.inputs[0], y = slots.outputs[0]] {
    if (e.middle * e.inner == 1) return launch_transpose(dtype, dtype, *x, *y, e.outer, e.a, e.b, stream);
    return launch_exchange({e.outer, e.a, e.middle, e.b, e.inner}, dtype, *x, *y, stream);
  });
}

/// Samples read the only row of a table.
std::unique_ptr<Kernel> compile_repeat(const Gpu& gpu, const OpContext& context, const Choice&,
                                       const Slots& slots) {
  const TableAccess access{.row_of = {.length = 1},
                           .tokens = context.outputs[0].shape[0],
                           .rows = 1,
                           .width = numel(context.inputs[0].shape)};
  return kernel(context, [=, dtype = context.inputs[0].dtype, stream = gpu.stream.get()] {
    return launch_read_rows(access, dtype, *slots.inputs[0], *slots.outputs[0], stream);
  });
}

Matrix samples_of(const OpContext& context) {
  const TensorSpec& dy = context.inputs[0];
  return {.rows = dy.shape[0], .columns = numel(dy.shape) / dy.shape[0], .dtype = dy.dtype};
}

Choice select_sum(const Gpu&, const OpContext& context, const OpenLayouts&) {
  Choice choice = row_major(context, "column_sums");
  choice.workspace_bytes = column_sums_workspace(samples_of(context));
  choice.kernels = kColumnSumsKernels;
  return choice;
}

std::unique_ptr<Kernel> compile_sum(const Gpu& gpu, const OpContext& context, const Choice&,
                                    const Slots& slots) {
  return kernel(context, [=, dy = samples_of(context), stream = gpu.stream.get()] {
    return launch_column_sums(dy, *slots.inputs[0], *slots.outputs[0], DType::f32, *slots.workspace, stream);
  });
}

Choice select_pieces(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return row_major(context, "pieces");
}

Choice select_pad(const Gpu& gpu, const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_pieces(gpu, context, inputs);
  choice.kernels = 2;  // zeros everywhere, then the pieces
  choice.again_bytes = bytes_of(context.outputs[0]) - bytes_of(context.inputs[0]);
  return choice;
}

}  // namespace

void add_rearrange(Handlers& handlers) {
  handlers[typeid(Pad)] = {select_pad, compile_pad, {}};
  handlers[typeid(Transpose)] = {select_pieces, compile_transpose, floats_only};
  handlers[typeid(RepeatSamples)] = {select_pieces, compile_repeat, floats_only};
  handlers[typeid(SumSamples)] = {select_sum, compile_sum, floats_only};
}

}  // namespace trainer::cuda
