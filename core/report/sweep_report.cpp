// SPDX-License-Identifier: Apache-2.0
#include "core/report/sweep_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/report/html.h"
#include "core/report/readable.h"
#include "core/report/sections.h"
#include "core/report/sweep_figures.h"
#include "core/report/sweep_view.h"

namespace trainer {
namespace {

std::string sweep_card(const std::string& figure, const std::string& text) {
  return fmt::format("<div class=\"card\"><b>{}</b><span>{}</span></div>\n", escaped(figure), escaped(text));
}

const char* method_name(const SweepPlan& plan) {
  switch (plan.section().method->kind()) {
    case SweepMethod::Kind::grid:
      return "grid";
    case SweepMethod::Kind::random:
      return "random";
    case SweepMethod::Kind::tpe:
      return "tpe";
  }
  return "";
}

std::string sweep_title(const SweepPlan& plan) {
  constexpr size_t kMostName = 100;
  return "Sweep of " + shortened(plan.recipe().run.name, kMostName);
}

/// "tpe, metric loss (smaller is better); 9 trials: 5 finished, 3 dropped, 0 failed, 1 open"
std::string sweep_subtitle(const SweepView& view) {
  using What = TrialState::What;
  const auto count = [&](What what) {
    return std::ranges::count_if(view.states, [&](const TrialState& state) { return state.what == what; });
  };
  const auto finished = count(What::finished), dropped = count(What::dropped), failed = count(What::failed);
  const std::string text = fmt::format(
      "{}, metric {} ({} is better); {} trials: {} finished, {} dropped, {} failed, {} open",
      method_name(view.plan), view.plan.metric(), view.plan.maximizes() ? "larger" : "smaller",
      view.plan.trials(), finished, dropped, failed, view.plan.trials() - finished - dropped - failed);
  return fmt::format("<p class=\"sub\">{}</p>\n", escaped(text));
}

/// A trial's value, with the deviation of repeats.
std::string figure_of(const SweepPlan& plan, const ShownTrial& trial) {
  std::string text = metric_text(*trial.metric, plan.maximizes());
  if (trial.is_finished && plan.repeats().size() > 1)
    text += " ± " + metric_text(trial.row.state.spread, plan.maximizes());
  return text;
}

std::string written_card(const SweepView& view) {
  const auto found =
      std::ranges::find(view.trials, 0, [](const ShownTrial& trial) { return trial.row.number; });
  const std::string text = view.plan.metric() + " of the recipe as written";
  if (found == view.trials.end()) return sweep_card("open", text);
  if (!found->metric) return sweep_card(found->row.what, text);
  return sweep_card(figure_of(view.plan, *found), found->is_finished ? text : text + ", " + found->row.what);
}

/// Of the trials that halving has decided. The steps of a whole training are those of the finished ones.
std::string saved_card(const SweepView& view) {
  double steps = 0, finished_steps = 0, finished = 0, decided = 0;
  for (const ShownTrial& trial : view.trials) {
    const bool is_finished = trial.row.state.what == TrialState::What::finished;
    if (!is_finished && trial.row.state.what != TrialState::What::dropped) continue;
    const auto own = static_cast<double>(trial.row.steps);
    ++decided, steps += own;
    if (is_finished) ++finished, finished_steps += own;
  }
  if (view.plan.rungs().empty() || finished_steps == 0) return "";
  const double whole = finished_steps / finished * decided;
  return sweep_card(share_text(1 - steps / whole), fmt::format("saved by halving: {} of {} steps taken",
                                                               rounded_text(steps), rounded_text(whole)));
}

std::string time_card(const SweepView& view) {
  constexpr double kMinute = 60;
  double seconds = 0;
  for (const ShownTrial& trial : view.trials) seconds += trial.row.seconds;
  return sweep_card(seconds < kMinute ? fmt::format("{:.3g} s", seconds) : human_seconds(seconds),
                    "of all trainings together");
}

std::string sweep_cards(const SweepView& view) {
  std::string cards;
  if (view.has_best())
    cards += sweep_card(figure_of(view.plan, view.trials[0]),
                        fmt::format("best {}: trial {}", view.plan.metric(), view.trials[0].row.number));
  return "<div class=\"cards\">" + cards + written_card(view) + saved_card(view) + time_card(view) +
         "</div>\n";
}

/// How far the best value can be trusted.
std::string trust_note(const SweepView& view) {
  const auto finished = std::ranges::count_if(view.trials, &ShownTrial::is_finished);
  if (finished == 0) return report_note("No trial has finished with a value: there is no best setting yet.");
  const size_t repeats = view.plan.repeats().size();
  if (repeats > 1)
    return fmt::format(
        "<p class=\"marks\">{}</p>\n",
        escaped(fmt::format("Values are means ± standard deviations of {} trainings, which differ "
                            "in {}.",
                            repeats, view.plan.section().repeat_key)));
  if (finished == 1) return "";
  return report_note(fmt::format(
      "The best of {} values is optimistic: luck is part of it. Train its setting again with other "
      "seeds (sweep.repeat) to measure what it is worth.",
      finished));
}

}  // namespace

std::string sweep_report(const SweepPlan& plan, const std::filesystem::path& directory,
                         const TrialRecords& records) {
  const SweepView view = view_of(plan, directory, records);
  const std::string title = sweep_title(plan);
  return html_page(title, kSweepStyle + fmt::format("<h1>{}</h1>\n", escaped(title)) + sweep_subtitle(view) +
                              sweep_cards(view) + trust_note(view) + beside_section(view) +
                              across_section(view) + scatter_section(view) + importance_section(view) +
                              trial_curves_section(view) + rungs_section(view) + failures_section(view) +
                              trials_section(view));
}

}  // namespace trainer
