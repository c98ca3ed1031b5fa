// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/regular_file.h"
#include "core/report/html.h"
#include "core/report/readable.h"
#include "core/report/sections.h"

namespace trainer {
namespace {

constexpr size_t kMostRows = 100, kMostColumns = 40;
constexpr size_t kMostText = size_t{256} << 10;  // bytes of a file that is shown

/// Evenly chosen numbers of rows, with the first, the last and `kept`.
std::vector<size_t> some_of(size_t count, std::optional<size_t> kept = std::nullopt) {
  std::set<size_t> chosen;
  const size_t rows = std::min(count, kMostRows);
  for (size_t i = 0; i < rows; ++i) chosen.insert(count <= kMostRows ? i : i * (count - 1) / (kMostRows - 1));
  if (kept && *kept < count) chosen.insert(*kept);
  return {chosen.begin(), chosen.end()};
}

std::string left_out(size_t shown, size_t all, const char* what) {
  return shown < all
             ? fmt::format("<p>{} of {} {}, evenly chosen; metrics.jsonl has all.</p>\n", shown, all, what)
             : "";
}

/// The keys of all records in the order in which they first appear.
std::vector<std::string> columns_of(const std::vector<MetricsRecord>& records, size_t& all) {
  std::vector<std::string> head = {"step", "epoch"};
  std::set<std::string> known = {"step", "epoch", "updates", "time"};
  for (const MetricsRecord& record : records)
    for (const auto& [key, value] : numbers_of(record))
      if (known.insert(key).second && head.size() < kMostColumns) head.push_back(key);
  all = known.size() - 2;
  return head;
}

std::string table(const std::string& title, const std::vector<MetricsRecord>& records,
                  std::optional<int64_t> best_step) {
  if (records.empty()) return "";
  std::optional<size_t> best;
  for (size_t i = 0; i < records.size(); ++i)
    if (records[i].step == best_step) best = i;
  size_t keys = 0;
  const std::vector<std::string> head = columns_of(records, keys);
  const std::vector<size_t> chosen = some_of(records.size(), best);
  std::vector<std::vector<std::string>> rows;
  std::optional<size_t> marked;
  for (const size_t i : chosen) {
    if (i == best) marked = rows.size();
    std::map<std::string, Number> values;
    for (const auto& [key, value] : numbers_of(records[i])) values.emplace(key, value);
    std::vector<std::string> row;
    for (const std::string& key : head) {
      const auto found = values.find(key);
      const bool is_count = found != values.end() && std::holds_alternative<int64_t>(found->second);
      row.push_back(found == values.end() ? ""
                    : is_count            ? fmt::format("{}", std::get<int64_t>(found->second))
                                          : fmt::format("{:.5g}", to_double(found->second)));
      if (row.back() == "nan") row.back() = "NaN";
    }
    rows.push_back(std::move(row));
  }
  std::string notes = left_out(chosen.size(), records.size(), "records");
  if (head.size() < keys) notes += report_note(fmt::format("{} of {} columns are shown.", head.size(), keys));
  return folded(title, notes + "<div class=\"wide\">" + html_table(head, rows, marked) + "</div>\n");
}

std::string guards(const std::vector<MetricsRecord>& records) {
  if (records.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  const std::vector<size_t> chosen = some_of(records.size());
  for (const size_t i : chosen) {
    const MetricsRecord& record = records[i];
    rows.push_back({fmt::format("{}", record.step), record.event.value_or(record.split),
                    record.reason.value_or(""), record.in_a_row ? fmt::format("{}", *record.in_a_row) : "",
                    number_text(record.loss)});
  }
  return folded(fmt::format("Decisions of the guards ({})", records.size()),
                left_out(chosen.size(), records.size(), "decisions") +
                    html_table({"step", "decision", "reason", "in a row", "loss"}, rows),
                true);
}

/// The file as it is.
std::string file(const std::string& title, const char* name, const std::optional<std::string>& text,
                 RunCondition state) {
  if (!text)
    return report_note(fmt::format(
        "{} is not there{}", name,
        state == RunCondition::finished ? "." : "; a run writes it when it is finished, or begins."));
  const std::string rest =
      text->size() > kMostText
          ? report_note(fmt::format("The first {} of {} bytes.", kMostText, text->size()))
          : "";
  return folded(title, "<pre>" + escaped(text->substr(0, kMostText)) + "</pre>\n" + rest);
}

}  // namespace

std::string tables_section(const ReportedRun& run, const RunFiles& files) {
  const RunOverview& overview = run.overview;
  return "<h2>Numbers and recipe</h2>\n" + guards(files.history.guard) +
         table(fmt::format("Validation ({})", files.history.validation.size()), files.history.validation,
               overview.best_step) +
         table(fmt::format("Training ({})", files.history.training.size()), files.history.training,
               std::nullopt) +
         file("Summary", "summary.json", files.summary_text, overview.state) +
         file("Recipe with all defaults", "recipe.yaml",
              read_text(overview.directory / "recipe.yaml", Links::refuse), overview.state);
}

}  // namespace trainer
