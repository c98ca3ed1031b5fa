// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/positions.h"

#include "cuda/rotary.h"
#include "cuda/table.h"
#include "cuda/table_rows.h"

namespace trainer::cuda {
namespace {

/// Slots of the inputs that determine tokens' positions.
struct PositionSlots {
  void* const* first;
  void* const* start;
  int64_t length;

  TableRows rows() const {
    return {.first = optional_at<const int32_t>(first),
            .start = optional_at<const int32_t>(start),
            .length = length};
  }
};

/// Of x or dy (N, T, E) and a table of this many rows.
TableAccess access_of(const OpContext& context, int64_t rows) {
  const Shape& x = context.inputs[position_input::kX].shape;
  return {.row_of = {}, .tokens = x[0] * x[1], .rows = rows, .width = x[2]};
}

std::unique_ptr<Kernel> compile_add(const Gpu& gpu, const OpContext& context, const Choice&,
                                    const Slots& slots) {
  const TensorSpec& x = context.inputs[position_input::kX];
  const PositionSlots positions{slots.inputs[position_input::kFirstPosition],
                                slots.inputs[position_input::kStart], x.shape[1]};
  return kernel(context, [=, access = access_of(context, context.inputs[position_input::kTable].shape[0]),
                          dtype = x.dtype, stream = gpu.stream.get()]() mutable {
    access.row_of = positions.rows();
    return launch_add_rows(access, dtype, *slots.inputs[position_input::kX],
                           at<const float>(slots.inputs[position_input::kTable]),
                           *slots.outputs[AddPositions::kY], stream);
  });
}

Choice select_add_backward(const Gpu&, const OpContext& context, const OpenLayouts&) {
  Choice choice = row_major(context, "sorted tokens");
  const int64_t tokens =
      context.inputs[AddPositionsBackward::kDy].shape[0] * context.inputs[AddPositionsBackward::kDy].shape[1];
  choice.workspace_bytes = sum_rows_workspace(tokens);
  choice.kernels = sum_rows_kernels(tokens);
  return choice;
}

std::unique_ptr<Kernel> compile_add_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                             const Slots& slots) {
  const TensorSpec& dy = context.inputs[AddPositionsBackward::kDy];
  const PositionSlots positions{slots.inputs[AddPositionsBackward::kFirstPosition],
                                slots.inputs[AddPositionsBackward::kStart], dy.shape[1]};
  return kernel(context,
                [=, access = access_of(context, context.outputs[AddPositionsBackward::kDtable].shape[0]),
                 dtype = dy.dtype, stream = gpu.stream.get()]() mutable {
                  access.row_of = positions.rows();
                  return launch_sum_rows(access, dtype, *slots.inputs[AddPositionsBackward::kDy],
                                         at<float>(slots.outputs[AddPositionsBackward::kDtable]),
                                         *slots.workspace, stream);
                });
}

std::unique_ptr<Kernel> compile_rotary(const Gpu& gpu, const OpContext& context, const Choice&,
                                       const Slots& slots) {
  const TensorSpec& x = context.inputs[position_input::kX];
  const PositionSlots positions{slots.inputs[position_input::kFirstPosition],
                                slots.inputs[position_input::kStart], x.shape[1]};
  return kernel(context, [=, settings = static_cast<const Rotary&>(context.op).settings,
                          tokens = RotaryTokens{{}, x.shape[0] * x.shape[1], x.shape[2]}, dtype = x.dtype,
                          stream = gpu.stream.get()]() mutable {
    tokens.row_of = positions.rows();
    return launch_rotary(settings, tokens, dtype, *slots.inputs[position_input::kX],
                         at<const float>(slots.inputs[position_input::kTable]), *slots.outputs[Rotary::kY],
                         stream);
  });
}

Choice select_rows(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return row_major(context, "rows");
}

}  // namespace

void add_positions(Handlers& handlers) {
  handlers[typeid(AddPositions)] = {select_rows, compile_add, floats_only};
  handlers[typeid(AddPositionsBackward)] = {select_add_backward, compile_add_backward, floats_only};
  handlers[typeid(Rotary)] = {select_rows, compile_rotary, floats_only};
}

}  // namespace trainer::cuda
