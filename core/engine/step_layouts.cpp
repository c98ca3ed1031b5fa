// SPDX-License-Identifier: Apache-2.0
#include "core/engine/step_layouts.h"

#include "core/graph/ops/optimizer_steps.h"

namespace trainer {

void lay_out_step(const OpContext& context, const OpenLayouts& inputs, Choice& choice) {
  const auto& op = static_cast<const OptimizerStep&>(context.op);
  for (size_t p = 0; p < op.parameters(); ++p) {
    const std::optional<Layout>&w = inputs[op.input_of(p)], &g = inputs[op.input_of(p) + 1];
    const Layout layout = (w ? w : g).value_or(Layout{});
    for (size_t i = 0; i < 2 + op.moments; ++i) choice.inputs[op.input_of(p) + i] = layout;
    for (size_t i = 0; i < 1 + op.moments; ++i) choice.outputs[op.output_of(p) + i] = layout;
  }
}

}  // namespace trainer
