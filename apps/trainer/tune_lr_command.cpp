// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/trainer/commands.h"
#include "apps/trainer/devices.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/json.h"
#include "core/report/terminal_chart.h"
#include "core/session/membership.h"
#include "core/tune/rate_curve.h"
#include "core/tune/rate_search.h"

namespace trainer {
namespace {

/// Guards that judge losses would take a rising rate for a failure.
const std::vector<std::string> kWithoutGuards = {"guards.nonfinite=stop", "guards.spike=none",
                                                 "guards.gradient_spike=none"};

std::string override_of(double rate) {
  return fmt::format("optimizer.lr={:.2g}", rate);
}

/// Losses far above the first would hide the rest of the curve.
std::string drawing(const RateCurve& curve, const RateSuggestions& found) {
  constexpr size_t kWidth = 90, kHeight = 12;
  Points points, marked;
  for (size_t i = 0; i < curve.losses.size(); ++i) {
    points.emplace_back(static_cast<double>(i), std::min(curve.losses[i], 1.25 * curve.losses[0]));
    const bool is_best =
        i + 1 < curve.rates.size() && curve.rates[i] <= found.best() && found.best() < curve.rates[i + 1];
    if (is_best) marked.push_back(points.back());
  }
  std::string text;
  for (const std::string& line :
       terminal_chart("smoothed loss over the steps", points, kWidth, kHeight, marked))
    text += line + "\n";
  return text + fmt::format("learning rate from {:.2g} to {:.2g}; o: the suggestion\n", curve.rates.front(),
                            curve.rates.back());
}

std::string rates_text(const RateCurve& curve, const RateSuggestions& found) {
  std::string text = drawing(curve, found);
  text += fmt::format("steepest place {:.2g}, longest valley {:.2g}", found.steepest, found.valley);
  text += found.tenth
              ? fmt::format(", a tenth of where it diverged {:.2g}\n", *found.tenth)
              : fmt::format(
                    ", a tenth of the place with the least loss {:.2g}; it did not diverge below {:.2g}\n",
                    found.least / 10, curve.rates.back());
  return text + fmt::format("suggestion: {}\n", override_of(found.best()));
}

std::string rates_json(const RateCurve& curve, const RateSuggestions& found) {
  Json json = {{"override", override_of(found.best())},
               {"suggestion", found.best()},
               {"steepest", found.steepest},
               {"valley", found.valley},
               {"least", found.least}};
  if (found.tenth) json["tenth_of_divergence"] = *found.tenth;
  if (curve.diverged_at) json["diverged_at"] = *curve.diverged_at;
  json["rates"] = curve.rates;
  json["losses"] = curve.losses;
  return json.dump(2) + "\n";
}

std::shared_ptr<const Recipe> recipe_with_seed(const Arguments& arguments, int64_t more) {
  std::vector<std::string> overrides = arguments.overrides;
  overrides.insert(overrides.end(), kWithoutGuards.begin(), kWithoutGuards.end());
  auto recipe = Recipe::load(arguments.config, overrides);
  if (more == 0) return recipe;
  overrides.push_back(fmt::format("run.seed={}", recipe->run.seed + more));
  return Recipe::load(arguments.config, overrides);
}

}  // namespace

int tune_lr_command(const Arguments& arguments) {
  require_one_process("tuning");
  const StopSignals signals(StopSignals::kPass);
  const TuneArguments& wanted = arguments.tune;
  const std::shared_ptr<const Recipe> recipe = recipe_with_seed(arguments, 0);
  // --from and --to are values of optimizer.lr, which lr_for_batch scales.
  const double scale = recipe->optimizer->lr_scale(recipe->training.global_batch_size);
  const std::vector<float> rates = rising_rates(wanted.from * scale, wanted.to * scale, wanted.steps);
  Progress progress({.fd = STDERR_FILENO, .terminal = Progress::for_terminal(STDERR_FILENO)});
  Log log(progress);
  std::vector<std::vector<double>> losses;
  for (int64_t i = 0; i < wanted.repeats; ++i)
    losses.push_back(losses_at_rates(recipe_with_seed(arguments, i), rates, open_to_train, signals, log));
  RateCurve curve = rate_curve(rates, losses);
  for (double& rate : curve.rates) rate /= scale;
  if (curve.diverged_at) *curve.diverged_at /= scale;
  const std::optional<RateSuggestions> found = suggest_rates(curve);
  if (!found)
    throw Error(ExitCode::internal,
                fmt::format("the loss does not fall at any rate from {:.2g} to {:.2g}, so there is none to "
                            "suggest; give other rates with --from and --to, or more --steps",
                            wanted.from, wanted.to));
  print_to_output(arguments.json ? rates_json(curve, *found) : rates_text(curve, *found));
  return 0;
}

}  // namespace trainer
