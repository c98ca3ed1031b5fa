// SPDX-License-Identifier: Apache-2.0
#include "core/optim/counted_loss.h"

#include <stdexcept>

#include "core/graph/names.h"
#include "core/graph/ops/counted_cross_entropy.h"
#include "core/optim/loss_scaling.h"
#include "core/optim/step_report.h"

namespace trainer {

CountedLoss append_mean_loss(Builder& build) {
  Program& program = build.program();
  Entry& entry = build.entry();
  const auto summed = [&](const char* output, const char* state) {
    const TensorId own = entry.output(output);
    return own == kNone ? program.find(state) : own;
  };
  const TensorId weight = summed(output_name::kLossWeight, state_name::kLossWeight);
  if (weight == kNone) return {};
  const TensorId sum = summed(output_name::kLoss, state_name::kGuardLoss);
  if (sum == kNone) throw std::logic_error("a loss that counts has no sum");
  const auto mean = build.emit_all(std::make_shared<MeanOfCounted>(), {sum, weight, scale_of_loss(program)});
  std::erase_if(entry.outputs, [](const NamedTensor& output) {
    return output.name == output_name::kLoss || output.name == output_name::kLossWeight;
  });
  put_out(build, &StepReport::loss, mean[MeanOfCounted::kMean]);
  return {.factor = mean[MeanOfCounted::kFactor], .divisor = mean[MeanOfCounted::kDivisor]};
}

}  // namespace trainer
