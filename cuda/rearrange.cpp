// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/rearrange.h"

#include "cuda/bias.h"
#include "cuda/movement.h"
#include "cuda/table.h"
#include "cuda/table_rows.h"

namespace trainer::cuda {
namespace {

std::unique_ptr<Kernel> compile_transpose(const Gpu& gpu, const OpContext& context, const Choice&,
                                          const Slots& slots) {
  const TransposedSizes e(static_cast<const Transpose&>(context.op), context.inputs[Transpose::kX].shape);
  const DType dtype = context.inputs[Transpose::kX].dtype;
  return kernel(context, [=, stream = gpu.stream.get(), x = slots.inputs[Transpose::kX],
                          y = slots.outputs[Transpose::kY]] {
    if (e.middle * e.inner == 1) return launch_transpose(dtype, dtype, *x, *y, e.outer, e.a, e.b, stream);
    return launch_exchange({e.outer, e.a, e.middle, e.b, e.inner}, dtype, *x, *y, stream);
  });
}

/// Samples read the only row of a table.
std::unique_ptr<Kernel> compile_repeat(const Gpu& gpu, const OpContext& context, const Choice&,
                                       const Slots& slots) {
  const TableAccess access{.row_of = {.length = 1},
                           .tokens = context.outputs[RepeatSamples::kY].shape[0],
                           .rows = 1,
                           .width = numel(context.inputs[RepeatSamples::kX].shape)};
  return kernel(context, [=, dtype = context.inputs[RepeatSamples::kX].dtype, stream = gpu.stream.get()] {
    return launch_read_rows(access, dtype, *slots.inputs[RepeatSamples::kX],
                            *slots.outputs[RepeatSamples::kY], stream);
  });
}

Matrix samples_of(const OpContext& context) {
  const TensorSpec& dy = context.inputs[SumSamples::kDy];
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
    return launch_column_sums(dy, *slots.inputs[SumSamples::kDy], *slots.outputs[SumSamples::kDx], DType::f32,
                              *slots.workspace, stream);
  });
}

Choice select_pieces(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return row_major(context, "pieces");
}

}  // namespace

void add_rearrange(Handlers& handlers) {
  handlers[typeid(Transpose)] = {select_pieces, compile_transpose, floats_only};
  handlers[typeid(RepeatSamples)] = {select_pieces, compile_repeat, floats_only};
  handlers[typeid(SumSamples)] = {select_sum, compile_sum, floats_only};
}

}  // namespace trainer::cuda
