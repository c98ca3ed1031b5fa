// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "apps/trainer/commands.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/json.h"
#include "core/run/run_list.h"

namespace trainer {
namespace {

constexpr size_t kTableWidth = 100;
constexpr size_t kLeastNameWidth = 12;
constexpr size_t kMetricName = 10;  // longer ones are cut off
constexpr int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;

/// In the largest unit of which there are two.
std::string age_text(int64_t seconds) {
  const auto [unit, name] = seconds < 2 * kMinute ? std::pair<int64_t, const char*>(1, "s")
                            : seconds < 2 * kHour ? std::pair<int64_t, const char*>(kMinute, "min")
                            : seconds < 2 * kDay  ? std::pair<int64_t, const char*>(kHour, "h")
                                                  : std::pair<int64_t, const char*>(kDay, "d");
  return fmt::format("{} {}", std::max<int64_t>(0, seconds) / unit, name);
}

std::string number_text(const std::optional<double>& value, const char* digits) {
  return value ? fmt::format(fmt::runtime(digits), *value) : "-";
}

/// Its place below `root`.
std::string name_of(const RunOverview& run, const std::filesystem::path& root) {
  const std::string name = run.directory.lexically_relative(root).string();
  return name.empty() || name == "." ? run.directory.string() : name;
}

/// Names may hold anything, also the ends of lines.
std::string on_one_line(std::string text) {
  std::ranges::replace(text, '\n', '?');
  return text;
}

using Row = std::array<std::string, 7>;

Row row_of(const RunOverview& run, const std::filesystem::path& root, int64_t now) {
  return {
      on_one_line(name_of(run, root)),
      std::string(to_string(run.state)),
      run.steps ? fmt::format("{}/{}", run.step, *run.steps) : fmt::format("{}", run.step),
      run.best ? fmt::format("{} {:.4g}", on_one_line(run.metric.substr(0, kMetricName)), *run.best) : "-",
      number_text(run.loss, "{:.4g}"),
      number_text(run.samples_per_s, "{:.0f}"),
      age_text(now - run.updated)};
}

/// The end of a name, which tells runs apart.
std::string shortened(const std::string& text, size_t width) {
  return text.size() <= width ? text : "..." + text.substr(text.size() + 3 - width);
}

/// The first line of why a run ended.
void print_reason(const RunOverview& run, const std::filesystem::path& root) {
  if (run.message.empty()) return;
  std::string text = on_one_line(name_of(run, root)) + ": " + run.message;
  text = text.substr(0, text.find('\n'));
  print_text("{}\n", text.size() <= kTableWidth ? text : text.substr(0, kTableWidth - 3) + "...");
}

void print_table(const std::vector<RunOverview>& runs, const std::filesystem::path& root) {
  std::vector<Row> rows = {{"run", "state", "step", "best", "loss", "samples/s", "age"}};
  const int64_t now = std::time(nullptr);
  for (const RunOverview& run : runs) rows.push_back(row_of(run, root, now));
  std::array<size_t, 7> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  size_t others = 0;
  for (size_t i = 1; i < widths.size(); ++i) others += 2 + widths[i];
  widths[0] = std::min(widths[0], std::max(kLeastNameWidth, kTableWidth - std::min(kTableWidth, others)));
  for (const Row& row : rows) {
    print_text("{:<{}}  {:<{}}  {:>{}}  {:<{}}  {:>{}}  {:>{}}  {:>{}}\n", shortened(row[0], widths[0]),
               widths[0], row[1], widths[1], row[2], widths[2], row[3], widths[3], row[4], widths[4], row[5],
               widths[5], row[6], widths[6]);
  }
}

Json json_of(const RunOverview& run, const std::filesystem::path& root) {
  Json json = {{"name", name_of(run, root)},
               {"directory", run.directory.string()},
               {"state", to_string(run.state)},
               {"step", run.step}};
  const auto add = [&](const char* key, const auto& value) {
    if (value) json[key] = *value;
  };
  add("steps", run.steps);
  if (run.best) json["best"] = {{"metric", run.metric}, {"value", *run.best}};
  add("loss", run.loss);
  add("samples_per_s", run.samples_per_s);
  json["updated"] = run.updated;
  add("exit_code", run.exit_code);
  if (!run.message.empty()) json["message"] = run.message;
  return json;
}

}  // namespace

int runs_command(const Arguments& arguments) {
  const std::filesystem::path root = arguments.path.empty() ? "runs" : arguments.path;
  const std::vector<RunOverview> runs = list_runs(root);
  if (arguments.json) {
    Json all = Json::array();
    for (const RunOverview& run : runs) all.push_back(json_of(run, root));
    // A path need not be UTF-8, JSON must.
    print_text("{}\n", all.dump(2, Json::NotUtf8::replace));
  } else if (runs.empty()) {
    print_text("no runs below {}\n", root.string());
  } else {
    print_table(runs, root);
    for (const RunOverview& run : runs) print_reason(run, root);
  }
  return 0;
}

}  // namespace trainer
