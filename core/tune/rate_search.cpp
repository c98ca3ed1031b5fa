// SPDX-License-Identifier: Apache-2.0
#include "core/tune/rate_search.h"

#include "core/tune/rate_curve.h"
#include "core/tune/short_training.h"

namespace trainer {

std::vector<double> losses_at_rates(const std::shared_ptr<const Recipe>& recipe,
                                    const std::vector<float>& rates, const OpenDevice& open_device,
                                    const StopSignals& signals, Log& log) {
  ShortTraining training(recipe, rates, open_device, log);
  LossAverage average;
  std::vector<double> losses;
  training.train(static_cast<int64_t>(rates.size()), signals, [&](const StepResult& step) {
    losses.push_back(step.report.loss);
    average.add(step.report.loss);
    return average.has_diverged();
  });
  return losses;
}

}  // namespace trainer
