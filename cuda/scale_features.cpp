// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/scale_features.h"

#include "core/graph/ops/linear.h"
#include "cuda/bias.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

Matrix rows_of(const OpContext& context) {
  const Shape rows = as_rows(context.inputs[0].shape);
  return {.rows = rows[0], .columns = rows[1], .dtype = context.inputs[0].dtype};
}

std::unique_ptr<Kernel> compile_scaling(const Gpu& gpu, const OpContext& context, const Choice&,
                                        const Slots& slots) {
  return kernel(context, [=, x = rows_of(context), stream = gpu.stream.get()] {
    return launch_scale_columns(x, *slots.inputs[ScaleFeatures::kX],
                                at<const float>(slots.inputs[ScaleFeatures::kFactors]),
                                *slots.outputs[ScaleFeatures::kY], stream);
  });
}

Choice select_sums(const Gpu&, const OpContext& context, const OpenLayouts&) {
  Choice choice = row_major(context, "column_sums");
  choice.workspace_bytes = column_sums_workspace(rows_of(context));
  choice.kernels = kColumnSumsKernels;
  return choice;
}

std::unique_ptr<Kernel> compile_sums(const Gpu& gpu, const OpContext& context, const Choice&,
                                     const Slots& slots) {
  return kernel(context, [=, dy = rows_of(context), stream = gpu.stream.get()] {
    return launch_column_products(
        dy, *slots.inputs[ScaleFeaturesBackward::kDy], *slots.inputs[ScaleFeaturesBackward::kX],
        at<float>(slots.outputs[ScaleFeaturesBackward::kDfactors]), *slots.workspace, stream);
  });
}

}  // namespace

void add_scale_features(Handlers& handlers) {
  handlers[typeid(ScaleFeatures)] = {
      [](const Gpu&, const OpContext& context, const OpenLayouts&) { return row_major(context, "rows"); },
      compile_scaling, floats_only};
  handlers[typeid(ScaleFeaturesBackward)] = {select_sums, compile_sums, floats_only};
}

}  // namespace trainer::cuda
