// SPDX-License-Identifier: Apache-2.0
#include "core/sweep/sweep_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/metrics/csv_row.h"

namespace trainer {
namespace {

using What = TrialState::What;

std::string what_text(const SweepPlan& plan, const TrialState& state) {
  switch (state.what) {
    case What::later:
    case What::ready:
      return "open";
    case What::waiting:
      return "waiting";
    case What::dropped:
      return "dropped at " + to_string(plan.rungs().at(state.next));
    case What::failed:
      return "failed";
    case What::finished:
      return "finished";
  }
  return "";
}

std::string number_or_nothing(double number) {
  return number == 0 ? "" : fmt::format("{:.6g}", number);
}

}  // namespace

std::vector<SweepRow> sweep_rows(const SweepPlan& plan, const TrialRecords& records,
                                 const std::vector<TrialState>& states) {
  std::vector<SweepRow> rows;
  for (const auto& [number, record] : records) {
    if (number >= std::ssize(states)) continue;
    SweepRow row{.number = number, .state = states[static_cast<size_t>(number)], .texts = record.texts};
    row.what = what_text(plan, row.state);
    row.texts.resize(plan.columns().size());
    if (record.failure) row.reason = record.failure->reason + ": " + record.failure->message;
    const auto repeats = static_cast<double>(std::max<size_t>(1, record.repeats.size()));
    for (const RepeatRecord& repeat : record.repeats) {
      row.steps += repeat.steps;
      row.seconds += repeat.seconds;
      row.samples_per_s += repeat.samples_per_s / repeats;
      row.joules_per_sample += repeat.joules_per_sample / repeats;
      row.peak_bytes = std::max(row.peak_bytes, repeat.peak_bytes);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string sweep_csv(const SweepPlan& plan, const std::vector<SweepRow>& rows) {
  std::vector<std::string> head = {"trial", "state", "reason"};
  head.insert(head.end(), plan.columns().begin(), plan.columns().end());
  for (const Duration& rung : plan.rungs()) head.push_back(plan.metric() + " at " + to_string(rung));
  head.push_back(plan.metric());
  const bool repeats = plan.repeats().size() > 1;
  if (repeats) head.emplace_back("deviation");
  for (const char* name : {"steps", "samples_per_s", "peak_bytes", "joules_per_sample", "seconds"})
    head.emplace_back(name);
  std::string text = csv_row(head);
  for (const SweepRow& row : rows) {
    std::vector<std::string> cells = {std::to_string(row.number), row.what, row.reason};
    cells.insert(cells.end(), row.texts.begin(), row.texts.end());
    for (size_t rung = 0; rung < plan.rungs().size(); ++rung)
      cells.push_back(rung < row.state.rungs.size() ? metric_number(row.state.rungs[rung]) : "");
    cells.push_back(row.state.value ? metric_number(*row.state.value) : "");
    if (repeats) cells.push_back(row.state.value ? metric_number(row.state.spread) : "");
    cells.push_back(std::to_string(row.steps));
    cells.push_back(number_or_nothing(row.samples_per_s));
    cells.push_back(row.peak_bytes == 0 ? "" : std::to_string(row.peak_bytes));
    cells.push_back(number_or_nothing(row.joules_per_sample));
    cells.push_back(fmt::format("{:.2f}", row.seconds));
    text += csv_row(cells);
  }
  return text;
}

std::string metric_number(double value) {
  return fmt::format("{:.7g}", value);
}

std::string value_text(const SweepPlan& plan, double value, double spread) {
  const std::string text = fmt::format("{} {:.4f}", plan.metric(), value);
  return spread > 0 ? fmt::format("{} ± {:.4f}", text, spread) : text;
}

std::string best_recipe(const SweepPlan& plan, const TrialRecord& best, const TrialState& state,
                        int64_t threads) {
  std::vector<std::string> words = best.overrides;
  if (!plan.repeats()[0].empty()) words.push_back(plan.repeats()[0]);
  words.push_back(fmt::format("device.threads={}", threads));
  words.emplace_back("run.output_dir=" + RunSection().output_dir);
  words.emplace_back("run.stop_after=null");
  words.emplace_back("sweep=null");
  std::string text = fmt::format("# Trial {} of a sweep of {} settings: {}", best.number, plan.trials(),
                                 value_text(plan, state.value.value_or(0), state.spread));
  if (plan.repeats().size() > 1)
    text += fmt::format(", the mean of {} trainings, of which this is the first", plan.repeats().size());
  return text + "\n" + plan.with(words)->to_yaml(false);
}

}  // namespace trainer
