// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/sweep_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/report/terminal_chart.h"
#include "core/run/run_settings.h"
#include "core/sweep/sweep_table.h"
#include "core/sweep/trial_lock.h"

namespace trainer {
namespace {

using What = TrialState::What;

constexpr size_t kBestShown = 10, kSweepChartLines = 8, kMostCell = 24;

/// "20 finished, 5 dropped, 2 failed, 1 trains".
std::string progress_of(const SweepPlan& plan, const std::filesystem::path& directory,
                        const std::vector<TrialState>& states) {
  std::map<What, int64_t> counts;
  int64_t training = 0;
  for (int64_t number = 0; number < std::ssize(states); ++number) {
    const TrialState& state = states[static_cast<size_t>(number)];
    ++counts[state.what];
    training += !state.is_decided() && TrialLock::is_held(directory, number) ? 1 : 0;
  }
  std::string text = fmt::format("{} of {} trials finished", counts[What::finished], plan.trials());
  for (const auto& [what, word] :
       {std::pair{What::dropped, "dropped"}, {What::failed, "failed"}, {What::waiting, "waiting"}})
    if (counts[what] > 0) text += fmt::format(", {} {}", counts[what], word);
  return training > 0 ? text + fmt::format("; {} training now", training) : text;
}

/// The best value so far by the number of the trial; each finished trial that was better than all before it
/// is marked.
std::string chart_of(const SweepPlan& plan, const std::vector<TrialState>& states, size_t width) {
  Points points, marked;
  for (int64_t number = 0; number < std::ssize(states); ++number) {
    const TrialState& state = states[static_cast<size_t>(number)];
    const bool is_better =
        state.value && (points.empty() || plan.is_better(*state.value, points.back().second));
    if (!is_better && points.empty()) continue;
    points.emplace_back(static_cast<double>(number), is_better ? *state.value : points.back().second);
    if (is_better) marked.push_back(points.back());
  }
  std::string text;
  const std::string title = "best " + plan.metric() + " so far";
  for (const std::string& line : terminal_chart(title, points, width, kSweepChartLines, marked, "trial"))
    text += line + "\n";
  return text;
}

/// Finished trials, the best first.
std::vector<SweepRow> ranked(const SweepPlan& plan, const TrialRecords& records,
                             const std::vector<TrialState>& states) {
  std::vector<SweepRow> rows = sweep_rows(plan, records, states);
  std::erase_if(rows, [](const SweepRow& row) { return row.state.what != What::finished; });
  std::ranges::stable_sort(rows, [&](const SweepRow& a, const SweepRow& b) {
    return plan.is_better(*a.state.value, *b.state.value);
  });
  return rows;
}

std::string table_of(const SweepPlan& plan, const std::vector<SweepRow>& rows) {
  std::vector<std::vector<std::string>> lines = {{"trial", plan.metric()}};
  for (const std::string& name : short_names(plan.columns())) lines[0].push_back(name);
  lines[0].emplace_back("time");
  for (size_t i = 0; i < std::min(kBestShown, rows.size()); ++i) {
    const SweepRow& row = rows[i];
    lines.push_back({std::to_string(row.number), fmt::format("{:.4f}", *row.state.value)});
    if (row.state.spread > 0) lines.back().back() += fmt::format(" ± {:.4f}", row.state.spread);
    for (const std::string& text : row.texts) lines.back().push_back(text.substr(0, kMostCell));
    lines.back().push_back(human_seconds(row.seconds));
  }
  std::string text;
  for (const std::vector<std::string>& line : lines) {
    for (size_t column = 0; column < line.size(); ++column) {
      size_t width = 0;
      for (const std::vector<std::string>& each : lines) width = std::max(width, each[column].size());
      text += fmt::format("{:<{}}", line[column], column + 1 < line.size() ? width + 2 : 0);
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string sweep_screen(const SweepPlan& plan, const std::filesystem::path& directory,
                         const TrialRecords& records, size_t width) {
  const std::vector<TrialState> states = sweep_state(plan, records);
  std::string text = fmt::format("{}: {}\n", directory.string(), progress_of(plan, directory, states));
  text += chart_of(plan, states, width);
  const std::vector<SweepRow> rows = ranked(plan, records, states);
  return printable(rows.empty() ? text : text + table_of(plan, rows));
}

bool is_decided(const SweepPlan& plan, const TrialRecords& records) {
  return std::ranges::all_of(sweep_state(plan, records), &TrialState::is_decided);
}

}  // namespace trainer
