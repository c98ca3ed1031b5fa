// SPDX-License-Identifier: Apache-2.0
#include "core/report/sweep_view.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/run/run_settings.h"

namespace trainer {
namespace {

/// The value of a parameter with this text, also outside of its range: a recipe as written may be there.
std::optional<double> axis_value(const SweepParameter& parameter, const Dimension& dimension,
                                 const std::string& text) {
  for (int64_t i = 0; i < dimension.choices; ++i)
    if (parameter.text(static_cast<double>(i)) == text) return static_cast<double>(i);
  if (dimension.kind == Dimension::Kind::choice) return std::nullopt;
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || !std::isfinite(number)) return std::nullopt;
  return dimension.logarithmic && number <= 0 ? std::nullopt : std::optional(number);
}

Setting axis_values(const SweepPlan& plan, const std::vector<std::string>& texts) {
  Setting values(plan.space().size());
  for (size_t i = 0; i < values.size(); ++i) {
    const SweepParameter& parameter = *plan.section().parameters[i];
    const auto column = std::ranges::find(plan.columns(), parameter.name()) - plan.columns().begin();
    if (exists(plan.space(), values, i))
      values[i] = axis_value(parameter, plan.space()[i], texts.at(static_cast<size_t>(column)));
  }
  return values;
}

ShownTrial shown_trial(const SweepPlan& plan, SweepRow row) {
  ShownTrial trial{.row = std::move(row)};
  const TrialState& state = trial.row.state;
  trial.values = axis_values(plan, trial.row.texts);
  if (state.what == TrialState::What::finished) trial.metric = state.value;
  if (state.what == TrialState::What::dropped) trial.metric = state.rungs.at(state.next);
  if (trial.metric && !std::isfinite(*trial.metric)) trial.metric.reset();
  trial.is_finished = state.what == TrialState::What::finished && trial.metric;
  return trial;
}

}  // namespace

size_t SweepView::with_metric() const {
  return static_cast<size_t>(
      std::ranges::count_if(trials, [](const ShownTrial& trial) { return trial.metric.has_value(); }));
}

SweepView view_of(const SweepPlan& plan, const std::filesystem::path& directory,
                  const TrialRecords& records) {
  SweepView view{.plan = plan, .directory = directory, .records = records, .states = {}, .trials = {}};
  view.states = sweep_state(plan, records);
  for (SweepRow& row : sweep_rows(plan, records, view.states))
    view.trials.push_back(shown_trial(plan, std::move(row)));
  const auto place = [&plan](const ShownTrial& trial) {
    const int group = trial.is_finished ? 0 : trial.metric ? 1 : 2;
    const auto rung = group == 1 ? static_cast<int64_t>(trial.row.state.next) : 0;
    const double value = trial.metric.value_or(0);
    return std::tuple(group, -rung, plan.maximizes() ? -value : value, trial.row.number);
  };
  std::ranges::sort(view.trials, {}, place);
  return view;
}

std::vector<std::string> parameter_labels(const SweepPlan& plan) {
  const std::vector<std::string> names = short_names(plan.columns());
  const auto& parameters = plan.section().parameters;
  std::vector<std::string> labels;
  for (const auto& parameter : parameters) {
    const auto column = std::ranges::find(plan.columns(), parameter->name()) - plan.columns().begin();
    labels.push_back(names[static_cast<size_t>(column)]);
    const auto same = [&](const auto& other) { return other->name() == parameter->name(); };
    if (std::ranges::count_if(parameters, same) > 1) labels.back() += " " + to_flow(parameter->when);
  }
  return labels;
}

std::string shortened(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  while (most > 0 && continues(text[most])) --most;
  return text.substr(0, most) + "…";
}

}  // namespace trainer
