// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <stdexcept>

#include "core/graph/names.h"
#include "core/graph/ops/cross_entropy_sums.h"
#include "core/step/step_report.h"
#include "core/step/update.h"

namespace trainer {

void average_loss(Update& update) {
  const auto summed = [&](const char* output, const char* state) {
    const TensorId own = update.entry.output(output);
    return own == kNone ? update.program.find(state) : own;
  };
  const TensorId weight = summed(output_name::kLossWeight, state_name::kLossWeight);
  if (weight == kNone) return;
  const TensorId sum = summed(output_name::kLoss, state_name::kGuardLoss);
  if (sum == kNone) throw std::logic_error("a loss that counts its targets has no sum");
  const auto mean = update.build.emit_all(std::make_shared<MeanOverTargets>(),
                                          {sum, weight, scale_of_loss(update.program)});
  std::erase_if(update.entry.outputs, [](const NamedTensor& output) {
    return output.name == output_name::kLoss || output.name == output_name::kLossWeight;
  });
  put_out(update.build, &StepReport::loss, mean[MeanOverTargets::kMean]);
  update.state.factor = mean[MeanOverTargets::kFactor];
  update.state.divisor = mean[MeanOverTargets::kDivisor];
}

}  // namespace trainer
