// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/report/html.h"
#include "core/report/sections.h"
#include "core/report/sweep_view.h"
#include "core/run/run_settings.h"

namespace trainer {
namespace {

constexpr size_t kMostTrialRows = 1000, kMostOpenRows = 50;
constexpr size_t kMostValue = 60, kMostMessage = 300;  // bytes of texts

std::string or_dash(const std::string& text) {
  return text.empty() ? "–" : shortened(text, kMostValue);
}

std::string beside_row(const std::string& key, const std::string& written, const std::string& best) {
  return fmt::format("<tr{}><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                     written == best ? "" : " class=\"best\"", escaped(key), escaped(or_dash(written)),
                     escaped(or_dash(best)));
}

/// As sweep.csv has it.
std::string csv_number(double number) {
  return number == 0 ? "" : fmt::format("{:.6g}", number);
}

/// The columns of sweep.csv, without reasons.
std::vector<std::string> trials_head(const SweepPlan& plan) {
  std::vector<std::string> head = {"trial", "state"};
  for (const std::string& name : short_names(plan.columns())) head.push_back(name);
  for (const Duration& rung : plan.rungs()) head.push_back(plan.metric() + " at " + to_string(rung));
  head.push_back(plan.metric());
  for (const char* name :
       {"deviation", "steps", "samples_per_s", "peak_bytes", "joules_per_sample", "seconds"})
    head.emplace_back(name);
  return head;
}

std::vector<std::string> trial_cells(const SweepView& view, const SweepRow& row) {
  const TrialState& state = row.state;
  const auto record = view.records.find(row.number);
  const bool has_failed = record != view.records.end() && record->second.failure;
  std::vector<std::string> cells = {std::to_string(row.number), row.what};
  if (has_failed) cells.back() += ": " + shortened(record->second.failure->reason, kMostValue);
  for (const std::string& text : row.texts) cells.push_back(shortened(text, kMostValue));
  for (size_t rung = 0; rung < view.plan.rungs().size(); ++rung)
    cells.push_back(rung < state.rungs.size() ? metric_number(state.rungs[rung]) : "");
  cells.push_back(state.value ? metric_number(*state.value) : "");
  const bool has_deviation = state.value && view.plan.repeats().size() > 1;
  cells.push_back(has_deviation ? metric_number(state.spread) : "");
  cells.push_back(std::to_string(row.steps));
  cells.push_back(csv_number(row.samples_per_s));
  cells.push_back(row.peak_bytes == 0 ? "" : std::to_string(row.peak_bytes));
  cells.push_back(csv_number(row.joules_per_sample));
  cells.push_back(fmt::format("{:.2f}", row.seconds));
  return cells;
}

/// Without columns that have no value.
void remove_empty_columns(std::vector<std::string>& head, std::vector<std::vector<std::string>>& rows) {
  for (size_t i = head.size(); i-- > 0;) {
    if (std::ranges::any_of(rows, [i](const auto& row) { return !row[i].empty(); })) continue;
    head.erase(head.begin() + static_cast<int64_t>(i));
    for (auto& row : rows) row.erase(row.begin() + static_cast<int64_t>(i));
  }
}

/// What became of the trials that came to a rung.
struct RungCount {
  size_t came = 0, dropped = 0, waiting = 0;
  std::optional<double> worst;  ///< of those that went on
};

RungCount count_at(const SweepView& view, size_t rung) {
  RungCount count;
  for (const TrialState& state : view.states) {
    const bool was_dropped = state.what == TrialState::What::dropped;
    if (rung >= state.rungs.size() || (was_dropped && state.next < rung)) continue;
    ++count.came;
    const bool is_here = state.next == rung;
    if (is_here && was_dropped) {
      ++count.dropped;
    } else if (is_here && state.what == TrialState::What::waiting) {
      ++count.waiting;
    } else if (!count.worst || view.plan.is_better(*count.worst, state.rungs[rung])) {
      count.worst = state.rungs[rung];
    }
  }
  return count;
}

}  // namespace

std::string beside_section(const SweepView& view) {
  if (!view.has_best()) return "";
  const SweepRow& best = view.trials[0].row;
  const std::vector<std::string> written = view.plan.setting(0, {}, {}).texts;
  std::string html = "<h2>The best setting beside the recipe as written</h2>\n";
  if (best.number == 0) html += report_note("The best setting is the recipe as written.");
  html += fmt::format(
      "<div class=\"wide\"><table><thead><tr><th>key</th><th>as written</th><th>best: trial "
      "{}</th></tr></thead><tbody>\n",
      best.number);
  for (size_t i = 0; i < written.size(); ++i)
    html += beside_row(view.plan.columns()[i], written[i], best.texts[i]);
  return html + "</tbody></table></div>\n";
}

std::string rungs_section(const SweepView& view) {
  const std::vector<Duration>& rungs = view.plan.rungs();
  if (rungs.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (size_t rung = 0; rung < rungs.size(); ++rung) {
    const RungCount count = count_at(view, rung);
    rows.push_back({to_string(rungs[rung]), fmt::format("{}", count.came),
                    fmt::format("{}", count.came - count.dropped - count.waiting),
                    fmt::format("{}", count.dropped), fmt::format("{}", count.waiting),
                    count.worst ? metric_number(*count.worst) : ""});
  }
  return "<h2>Rungs</h2>\n<div class=\"wide\">" +
         html_table({"rung", "came", "went on", "dropped", "waiting",
                     fmt::format("worst {} that went on", view.plan.metric())},
                    rows) +
         "</div>\n";
}

std::string failures_section(const SweepView& view) {
  struct Reason {
    size_t count = 0;
    std::string first;
  };
  std::map<std::string, Reason> reasons;
  for (const auto& [number, record] : view.records) {
    if (!record.failure) continue;
    Reason& reason = reasons[record.failure->reason];
    if (++reason.count == 1) reason.first = fmt::format("trial {}: {}", number, record.failure->message);
  }
  if (reasons.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, reason] : reasons)
    rows.push_back({shortened(name, kMostValue), fmt::format("{}", reason.count),
                    shortened(reason.first, kMostMessage)});
  return "<h2>Failures</h2>\n<div class=\"wide\">" + html_table({"reason", "trials", "first message"}, rows) +
         "</div>\n";
}

std::string trials_section(const SweepView& view) {
  if (view.trials.empty()) return "";
  std::vector<std::string> head = trials_head(view.plan);
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min(view.trials.size(), kMostTrialRows); ++i)
    rows.push_back(trial_cells(view, view.trials[i].row));
  remove_empty_columns(head, rows);
  std::string table = "<div class=\"wide\">" +
                      html_table(head, rows, view.has_best() ? std::optional<size_t>(0) : std::nullopt) +
                      "</div>\n";
  if (rows.size() < view.trials.size())
    table += report_note(
        fmt::format("{} of {} trials are listed; sweep.csv has all.", rows.size(), view.trials.size()));
  if (rows.size() > kMostOpenRows) return folded(fmt::format("All trials ({})", view.trials.size()), table);
  return "<h2>All trials</h2>\n" + table;
}

}  // namespace trainer
