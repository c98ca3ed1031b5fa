// SPDX-License-Identifier: Apache-2.0
#include "core/report/sweep_axis.h"

#include <algorithm>
#include <cmath>

#include "core/report/chart.h"
#include "core/report/readable.h"

namespace trainer {
namespace {

constexpr double kAxisRounding = 1e-9;  // of ticks

/// Powers of ten, or between few of them also twice and five times these.
std::vector<double> logarithmic_ticks(double low, double high, int count) {
  const auto first = static_cast<int>(std::ceil(std::log10(low) - kAxisRounding));
  const auto last = static_cast<int>(std::floor(std::log10(high) + kAxisRounding));
  std::vector<double> ticks;
  if (last - first < 2) {
    for (int power = first - 1; power <= last; ++power)
      for (const double factor : {1.0, 2.0, 5.0}) ticks.push_back(factor * std::pow(10, power));
    const auto within = std::ranges::count_if(ticks, [&](double x) { return x >= low && x <= high; });
    return within < 2 ? axis_ticks(low, high, count) : ticks;
  }
  const int step = (last - first + count) / count;
  for (int power = first; power <= last; power += step) ticks.push_back(std::pow(10, power));
  return ticks;
}

/// Of choices that are too many for a text each, some.
std::vector<SweepAxis::Tick> choice_ticks(const SweepAxis& axis, int count) {
  std::vector<SweepAxis::Tick> ticks;
  const size_t step = (axis.choices.size() + static_cast<size_t>(count) - 1) / static_cast<size_t>(count);
  for (size_t i = 0; i < axis.choices.size(); i += step)
    ticks.push_back({.share = axis.share(static_cast<double>(i)), .text = axis.choices[i]});
  return ticks;
}

}  // namespace

double SweepAxis::share(double value) const {
  if (!choices.empty()) return (value + 0.5) / static_cast<double>(choices.size());
  if (low >= high) return 0.5;
  const double inner = std::clamp(value, low, high);
  if (logarithmic) return (std::log10(inner) - std::log10(low)) / (std::log10(high) - std::log10(low));
  return (inner / 2 - low / 2) / (high / 2 - low / 2);  // the difference may be infinite
}

std::vector<SweepAxis::Tick> SweepAxis::ticks(int count) const {
  if (!choices.empty()) return choice_ticks(*this, count);
  if (low >= high) return {{.share = 0.5, .text = tick_text(low)}};
  const double room = kAxisRounding * (high / 2 - low / 2);
  std::vector<Tick> all;
  for (const double tick : logarithmic ? logarithmic_ticks(low, high, count) : axis_ticks(low, high, count)) {
    if (tick < low - room || tick > high + room || (is_whole && tick != std::floor(tick))) continue;
    all.push_back({.share = share(tick), .text = tick_text(tick)});
  }
  return all;
}

std::vector<SweepAxis> parameter_axes(const SweepView& view) {
  const std::vector<std::string> labels = parameter_labels(view.plan);
  std::vector<SweepAxis> axes;
  for (size_t i = 0; i < labels.size(); ++i) {
    const Dimension& dimension = view.plan.space()[i];
    SweepAxis axis{.name = dimension.name, .label = labels[i], .low = dimension.low, .high = dimension.high};
    axis.logarithmic = dimension.logarithmic;
    axis.is_whole = dimension.kind == Dimension::Kind::integer;
    for (int64_t choice = 0; choice < dimension.choices; ++choice)
      axis.choices.push_back(view.plan.section().parameters[i]->text(static_cast<double>(choice)));
    for (const ShownTrial& trial : view.trials) {
      if (!trial.metric || !trial.values[i]) continue;
      axis.low = std::min(axis.low, *trial.values[i]);
      axis.high = std::max(axis.high, *trial.values[i]);
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

SweepAxis metric_axis(const SweepView& view) {
  // A diverged training must not press all others into one line.
  constexpr double kMuch = 50, kMost = 3, kPart = 0.75;
  std::vector<double> values;
  for (const ShownTrial& trial : view.trials)
    if (trial.metric) values.push_back(*trial.metric);
  std::ranges::sort(values, [&](double a, double b) { return view.plan.is_better(a, b); });
  const auto [low, high] = std::minmax(values.front(), values.back());
  SweepAxis axis{.name = view.plan.metric(), .label = view.plan.metric(), .low = low, .high = high};
  axis.logarithmic = low > 0 && high / low > kMuch;
  const auto scaled = [&](double value) { return axis.logarithmic ? std::log10(value) : value; };
  const double best = scaled(values.front());
  const double part = scaled(values[static_cast<size_t>(kPart * static_cast<double>(values.size() - 1))]);
  const double limit = best + kMost * (part - best);
  if (part == best || !std::isfinite(limit)) return axis;
  const double end = axis.logarithmic ? std::pow(10, limit) : limit;
  if (view.plan.maximizes() && end > axis.low) axis.low = end;
  if (!view.plan.maximizes() && end < axis.high) axis.high = end;
  axis.beyond = static_cast<size_t>(
      std::ranges::count_if(values, [&](double value) { return value < axis.low || value > axis.high; }));
  return axis;
}

}  // namespace trainer
