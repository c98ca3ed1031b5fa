// SPDX-License-Identifier: Apache-2.0
#include "tests/sweep/plans.h"

#include "tests/storage/scratch_directory.h"

namespace trainer::test {

std::string swept_recipe(const std::string& sweep, const std::string& duration) {
  return R"(version: 1
run: {name: small, seed: 3}
model:
  input: [1, 8, 8]
  layers: [flatten, {linear: 16}, tanh, {linear: 5}]
data: {format: synthetic, synthetic: {train_samples: 160, val_samples: 40}}
optimizer: {name: sgd, lr: 0.05}
validation: {interval: 1ba}
training: {global_batch_size: 16, max_duration: )" +
         duration + "}\nsweep: {" + sweep + "}\n";
}

SweepPlan plan_of(const std::string& sweep, const std::string& duration) {
  return {{.path = "swept.yaml", .text = swept_recipe(sweep, duration)}, {}};
}

std::string refusal_of(const std::string& sweep) {
  return error_text(ExitCode::recipe, [&] { plan_of(sweep); });
}

TrialRecord trained(int64_t number, const std::vector<double>& rungs, std::optional<double> end) {
  TrialRecord record{.number = number, .texts = {"0.1"}, .repeats = {{}}};
  for (const double value : rungs)
    record.repeats[0].rungs.push_back({std::ssize(record.repeats[0].rungs) + 1, value});
  if (end) record.repeats[0].end = TrialValue{9, *end};
  return record;
}

}  // namespace trainer::test
