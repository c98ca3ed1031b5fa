// SPDX-License-Identifier: Apache-2.0
#include "core/sweep/sweep_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/config/messages.h"
#include "core/data/formats.h"
#include "core/recipe/value_path.h"
#include "core/run/run_identity.h"
#include "core/search/grid.h"
#include "core/search/halving.h"
#include "core/search/tpe.h"
#include "core/tasks/task.h"

namespace trainer {
namespace {

/// The first of the metrics that evaluation reports besides the loss.
std::string usual_metric(const Recipe& recipe) {
  return recipe.validation.metrics.empty() ? "loss" : recipe.validation.metrics.front();
}

std::vector<int64_t> grid_points(const SweepSection& section) {
  std::vector<int64_t> points;
  for (const auto& parameter : section.parameters) points.push_back(parameter->points());
  return points;
}

/// The choice that a recipe has, of a parameter that sets several keys; "" if it has none of them.
std::string chosen_text(const SweepParameter& parameter, const Value& settings) {
  for (int64_t i = 0; i < parameter.points(); ++i) {
    const std::vector<std::string> words = parameter.overrides(static_cast<double>(i));
    const bool is_it = std::ranges::all_of(words, [&](const std::string& word) {
      const size_t equals = word.find('=');
      const Value::Entry* found = find_path(settings, word.substr(0, equals));
      return found != nullptr && to_flow(found->value) == word.substr(equals + 1);
    });
    if (is_it) return parameter.text(static_cast<double>(i));
  }
  return "";
}

}  // namespace

SweepPlan::SweepPlan(const RecipeSource& source, std::vector<std::string> overrides, Check check)
    : source_(source),
      overrides_(std::move(overrides)),
      recipe_(source_.load(overrides_)),
      space_(section().space()) {
  Diagnostics diagnostics;
  if (!section().is_given()) fail_at(recipe_->origin_of("sweep"), "missing key 'parameters': what to vary");
  for (const auto& parameter : section().parameters) {
    const auto same = std::ranges::find(columns_, parameter->name());
    column_of_.push_back(static_cast<size_t>(same - columns_.begin()));
    if (same == columns_.end()) columns_.push_back(parameter->name());
  }
  if (check == Check::all) check_sweep_values(*recipe_, source_, overrides_, diagnostics);
  metric_ = section().metric.value_or(usual_metric(*recipe_));
  settle_direction(diagnostics);
  settle_rungs(diagnostics);
  settle_count(diagnostics);
  if (check == Check::all) diagnostics.throw_if_any();
  for (const Value& item : section().repeat_values.items)
    repeats_.push_back(section().repeat_key + "=" + to_flow(item));
  if (repeats_.empty()) repeats_.emplace_back();
  first_.push_back(as_written(*recipe_, {}));
  if (check == Check::none) return;
  for (const Value& item : section().tries.items) {
    std::vector<std::string> words = overrides_of(item);
    first_.push_back(as_written(*with(words), words));
  }
}

std::shared_ptr<const Recipe> SweepPlan::with(const std::vector<std::string>& more) const {
  std::vector<std::string> all = overrides_;
  all.insert(all.end(), more.begin(), more.end());
  return source_.load(all);
}

bool SweepPlan::is_unchanged() const {
  return identity_of(with({})->settings()).mathematics == identity_of(recipe_->settings()).mathematics;
}

void SweepPlan::settle_direction(Diagnostics& diagnostics) {
  if (!has_split(recipe_->data, Split::val)) {
    diagnostics.error(recipe_->origin_of("sweep"),
                      "needs validation samples, by which settings are compared: name them in data.val");
  }
  const std::optional<Direction> direction = direction_of(metric_);
  if (!direction) {
    diagnostics.error(recipe_->origin_of("sweep.metric"),
                      fmt::format("{} has no better direction; choose another metric", shown(metric_)));
  }
  maximizes_ = direction == Direction::larger;
}

/// Durations in one unit are compared by their counts.
void SweepPlan::settle_rungs(Diagnostics& diagnostics) {
  const std::optional<Duration>& first = section().first_rung;
  if (!first) return;
  const Duration &end = recipe_->training.max_duration, &interval = recipe_->validation.interval;
  const Origin place = recipe_->origin_of("sweep.halving");
  for (const auto& [key, other] :
       {std::pair{"training.max_duration", end}, {"validation.interval", interval}}) {
    if (other.unit == first->unit) continue;
    diagnostics.error(place, fmt::format("first is {} and {} is {}: write both in the same unit",
                                         to_string(*first), key, to_string(other)));
    return;
  }
  if (interval.count == 0 || first->count % interval.count != 0) {
    diagnostics.error(place,
                      fmt::format("settings are compared at evaluations: first, {}, must be a multiple of "
                                  "validation.interval, {}",
                                  to_string(*first), to_string(interval)));
  }
  for (const int64_t count : trainer::rungs(first->count, section().halving_factor, end.count))
    rungs_.push_back({.count = count, .unit = first->unit});
  if (rungs_.empty()) {
    diagnostics.error(place, fmt::format("first, {}, must be shorter than training.max_duration, {}",
                                         to_string(*first), to_string(end)));
  }
}

void SweepPlan::settle_count(Diagnostics& diagnostics) {
  const auto fixed = static_cast<int64_t>(1 + section().tries.items.size());
  const Origin place = recipe_->origin_of("sweep.trials");
  if (section().trials && *section().trials < fixed) {
    diagnostics.error(
        place, fmt::format("must be at least {}: the recipe as written and {} in sweep.try, got {}", fixed,
                           fixed - 1, *section().trials));
  }
  if (section().method->kind() != SweepMethod::Kind::grid) {
    if (!section().trials) diagnostics.error(place, "missing key 'trials': how many settings to try");
    trials_ = section().trials.value_or(0);
    return;
  }
  const std::optional<int64_t> size = grid_size(space_, grid_points(section()));
  if (!size) {
    diagnostics.error(recipe_->origin_of("sweep.parameters"),
                      fmt::format("the grid has more than {} settings", kMaxGrid));
    return;
  }
  trials_ = section().trials.value_or(fixed + *size);
  if (trials_ > kMostTrials) {
    diagnostics.error(
        place, fmt::format("the grid has {} settings; give at most {} as sweep.trials, or fewer points",
                           *size, kMostTrials));
    trials_ = 0;
    return;
  }
  if (trials_ > fixed + *size) {
    diagnostics.error(place, fmt::format("must be at most {}: {} in the grid, and {} before it",
                                         fixed + *size, *size, fixed));
  }
  grid_ = grid_settings(space_, grid_points(section()));
}

bool SweepPlan::is_fixed(int64_t number) const {
  return number < std::ssize(first_) || section().method->kind() != SweepMethod::Kind::tpe;
}

TrialSetting SweepPlan::setting(int64_t number, const std::vector<Observation>& earlier,
                                const std::vector<Observation>& known) const {
  if (number < std::ssize(first_)) return first_[static_cast<size_t>(number)];
  const auto seed = static_cast<uint64_t>(section().seed);
  switch (section().method->kind()) {
    case SweepMethod::Kind::grid:
      return described(grid_.at(static_cast<size_t>(number) - first_.size()));
    case SweepMethod::Kind::random:
      return described(random_setting(space_, seed, number));
    case SweepMethod::Kind::tpe:
      break;
  }
  std::vector<Observation> seen = known;
  for (const Observation& each : earlier) {
    if (contains(space_, each.setting)) seen.push_back(each);
  }
  return described(tpe_setting(space_, seen, maximizes_, seed, number));
}

/// Values are those that the recipe gets: rounded.
TrialSetting SweepPlan::described(const Setting& values) const {
  TrialSetting setting{.values = Setting(space_.size()), .texts = std::vector<std::string>(columns_.size())};
  for (size_t i = 0; i < space_.size(); ++i) {
    if (!values[i]) continue;
    const SweepParameter& parameter = *section().parameters[i];
    std::vector<std::string> words = parameter.overrides(*values[i]);
    std::ranges::move(words, std::back_inserter(setting.overrides));
    setting.texts[column_of_[i]] = parameter.text(*values[i]);
    const bool is_choice = space_[i].kind == Dimension::Kind::choice;
    (*setting.values)[i] = is_choice ? *values[i] : *parameter.value_of_text(setting.texts[column_of_[i]]);
  }
  return setting;
}

TrialSetting SweepPlan::as_written(const Recipe& recipe, std::vector<std::string> words) const {
  TrialSetting setting{.overrides = std::move(words), .texts = std::vector<std::string>(columns_.size())};
  const Value settings = recipe.settings();
  for (size_t i = 0; i < space_.size(); ++i) {
    const SweepParameter& parameter = *section().parameters[i];
    const Value::Entry* found = parameter.key.empty() ? nullptr : find_path(settings, parameter.key);
    if (found != nullptr) setting.texts[column_of_[i]] = to_flow(found->value);
    if (parameter.key.empty()) setting.texts[column_of_[i]] = chosen_text(parameter, settings);
  }
  setting.values = values_of(setting.texts);
  return setting;
}

std::optional<Setting> SweepPlan::values_of(const std::vector<std::string>& texts) const {
  Setting values(space_.size());
  for (size_t i = 0; i < space_.size(); ++i) {
    if (!exists(space_, values, i)) continue;
    const std::string& text = texts.at(column_of_[i]);
    if (text.empty()) return std::nullopt;
    values[i] = section().parameters[i]->value_of_text(text);
    if (!values[i]) return std::nullopt;
  }
  return contains(space_, values) ? std::optional(values) : std::nullopt;
}

}  // namespace trainer
