// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/run_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <set>

#include "apps/trainer/standard_streams.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/config/fields.h"
#include "core/tasks/task.h"

namespace trainer {
namespace {

constexpr size_t kTableWidth = 100;     // outside of a terminal
constexpr size_t kWidthWithKeys = 120;  // likewise
constexpr size_t kLeastNameWidth = 12;
constexpr size_t kFirstKeys = 3;    // keys that are more important than the last columns
constexpr size_t kMetricName = 10;  // longer ones are cut off
constexpr size_t kValueWidth = 16;  // likewise
constexpr int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;

/// In the largest unit that gives at least two.
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

std::string value_text(const ListedRun& run, const std::string& key) {
  const auto found = run.settings.find(key);
  if (found == run.settings.end()) return "-";
  const std::string text = one_line(found->second);
  return text.size() <= kValueWidth ? text : text.substr(0, kValueWidth - 3) + "...";
}

struct Column {
  std::string name;
  bool is_number = false;  ///< right-aligned
  std::vector<std::string> cells;

  size_t width() const {
    size_t widest = name.size();
    for (const std::string& cell : cells) widest = std::max(widest, cell.size());
    return widest;
  }
};

std::vector<Column> fixed_columns(const std::vector<ListedRun>& runs, const std::filesystem::path& root) {
  std::vector<Column> columns = {{"run"},        {"state"},           {"step", true}, {"best"},
                                 {"loss", true}, {"samples/s", true}, {"age", true}};
  const int64_t now = std::time(nullptr);
  for (const ListedRun& listed : runs) {
    const RunOverview& run = listed.overview;
    const std::string best = run.best
                                 ? fmt::format("{} {:.4g} at {}", one_line(run.metric).substr(0, kMetricName),
                                               *run.best, run.best_step.value_or(0))
                                 : "-";
    const std::string step =
        run.steps ? fmt::format("{}/{}", run.step, *run.steps) : fmt::format("{}", run.step);
    const std::string cells[] = {name_of(run, root),
                                 std::string(to_string(run.state)),
                                 step,
                                 best,
                                 number_text(run.loss, "{:.4g}"),
                                 run.samples_per_s ? human_rate(*run.samples_per_s) : "-",
                                 age_text(now - run.updated)};
    for (size_t i = 0; i < columns.size(); ++i) columns[i].cells.push_back(cells[i]);
  }
  return columns;
}

Column key_column(const std::vector<ListedRun>& runs, const std::string& key, const std::string& name) {
  Column column{.name = name};
  for (const ListedRun& run : runs) column.cells.push_back(value_text(run, key));
  column.is_number = std::ranges::all_of(
      column.cells, [](const std::string& cell) { return cell == "-" || leading_number(cell); });
  return column;
}

/// The columns that fit, in this order: the first fixed ones, some keys, the other fixed ones, more keys.
struct ChosenColumns {
  std::vector<Column> columns;
  size_t keys = 0;  ///< how many of them are keys
};
ChosenColumns choose_columns(std::vector<Column> fixed, const std::vector<Column>& keys, size_t width) {
  // Names often say which value a run has.
  size_t used = std::min(fixed[0].width(), std::max(kLeastNameWidth, width / 3));
  const auto fits = [&](const Column& column) {
    const bool has_room = used + 2 + column.width() <= width;
    if (has_room) used += 2 + column.width();
    return has_room;
  };
  constexpr size_t kState = 1, kStep = 2, kBest = 3, kLoss = 4, kSpeed = 5, kAge = 6;
  std::vector<bool> shown(fixed.size(), false);
  for (const size_t i : {kState, kBest, kStep}) shown[i] = fits(fixed[i]);
  ChosenColumns chosen;
  const auto take_keys = [&](size_t most) {
    while (chosen.keys < std::min(most, keys.size()) && fits(keys[chosen.keys])) ++chosen.keys;
  };
  take_keys(kFirstKeys);
  for (const size_t i : {kAge, kLoss, kSpeed}) shown[i] = fits(fixed[i]);
  if (chosen.keys >= kFirstKeys) take_keys(keys.size());
  shown[0] = true;
  for (size_t i = 0; i < fixed.size(); ++i) {
    if (i == kStep)
      chosen.columns.insert(chosen.columns.end(), keys.begin(),
                            keys.begin() + static_cast<int64_t>(chosen.keys));
    if (shown[i]) chosen.columns.push_back(std::move(fixed[i]));
  }
  return chosen;
}

void print_columns(std::vector<Column>& columns, size_t table_width) {
  std::vector<size_t> widths;
  size_t others = 0;
  for (const Column& column : columns) widths.push_back(column.width()), others += 2 + column.width();
  others -= 2 + widths[0];
  widths[0] = std::min(widths[0], std::max(kLeastNameWidth, table_width - std::min(table_width, others)));
  for (size_t row = 0; row <= columns[0].cells.size(); ++row) {
    std::string line;
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::string& cell = row == 0 ? columns[i].name : columns[i].cells[row - 1];
      if (i > 0) line += "  ";
      line += columns[i].is_number ? fmt::format("{:>{}}", cell, widths[i])
                                   : fmt::format("{:<{}}", shortened_name(cell, widths[i]), widths[i]);
    }
    print_text("{}\n", line);
  }
}

/// The first line of why a run ended.
void print_reason(const RunOverview& run, const std::filesystem::path& root, size_t width) {
  if (run.message.empty()) return;
  std::string text = name_of(run, root) + ": " + run.message;
  text = one_line(text.substr(0, text.find('\n')));
  print_text("{}\n", text.size() <= width ? text : text.substr(0, width - 3) + "...");
}

/// The value that a run is sorted by; absent if it has none.
struct SortValue {
  std::optional<double> number;
  std::string text;
};

bool comes_first(const SortValue& a, const SortValue& b) {
  const auto is_absent = [](const SortValue& value) { return !value.number && value.text.empty(); };
  if (is_absent(a) || is_absent(b)) return !is_absent(a) && is_absent(b);
  if (a.number && b.number && *a.number != *b.number) return *a.number < *b.number;
  return a.text < b.text;
}

/// Of a column of the table; nothing if the column does not exist.
std::optional<SortValue> column_value(const RunOverview& run, const std::string& column) {
  if (column == "run") return SortValue{.text = run.directory.string()};
  if (column == "state") return SortValue{.text = std::string(to_string(run.state))};
  if (column == "step") return SortValue{.number = static_cast<double>(run.step)};
  if (column == "loss") return SortValue{.number = run.loss};
  if (column == "samples/s" || column == "samples_per_s") return SortValue{.number = run.samples_per_s};
  if (column == "age") return SortValue{.number = -static_cast<double>(run.updated)};
  if (column != "best") return std::nullopt;
  if (!run.best) return SortValue{};
  return SortValue{.number = direction_of(run.metric) == Direction::larger ? -*run.best : *run.best};
}

/// Candidates for a misspelt name: columns, keys and the ends of keys.
[[noreturn]] void throw_unknown_key(const std::vector<ListedRun>& runs, const std::string& name) {
  std::set<std::string> known = {"run", "state", "step", "best", "loss", "samples/s", "age"};
  for (const ListedRun& run : runs) {
    for (const auto& [key, value] : run.settings)
      known.insert(key), known.insert(key.substr(key.rfind('.') + 1));
  }
  const std::optional<std::string> meant = nearest(name, {known.begin(), known.end()});
  throw Error(
      ExitCode::usage,
      fmt::format("--sort {}: neither a column (run, state, step, best, loss, samples/s, age) nor a key of "
                  "these runs' recipes{}",
                  one_line(name), meant ? fmt::format("; did you mean '{}'?", *meant) : ""));
}

/// The key of the recipe that is meant.
std::string key_named(const std::vector<ListedRun>& runs, const std::string& name) {
  std::set<std::string> ends;
  for (const ListedRun& run : runs) {
    for (const auto& [key, value] : run.settings) {
      if (key == name) return name;
      if (key.ends_with("." + name)) ends.insert(key);
    }
  }
  if (ends.empty()) throw_unknown_key(runs, name);
  if (ends.size() > 1)
    throw Error(ExitCode::usage,
                fmt::format("--sort {}: more than one key ends so: {}", name, fmt::join(ends, ", ")));
  return *ends.begin();
}

}  // namespace

std::string shortened_name(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  return width < 4 ? text.substr(text.size() - width) : "..." + text.substr(text.size() + 3 - width);
}

RunOverview run_in(const std::filesystem::path& directory) {
  std::optional<RunOverview> run = look_at_run(directory);
  if (!run)
    throw Error(ExitCode::usage, fmt::format("{}: not a run's directory; `trainer runs` lists them",
                                             one_line(directory.string())));
  return std::move(*run);
}

ListedRun with_settings(RunOverview run) {
  Settings settings;
  try {
    settings = read_settings(run.directory);
  } catch (const Error& problem) {
    run.problems.emplace_back(problem.what());
  }
  return {std::move(run), std::move(settings)};
}

std::vector<ListedRun> list_runs_with_settings(const std::filesystem::path& root) {
  std::vector<ListedRun> runs;
  for (RunOverview& run : list_runs(root)) runs.push_back(with_settings(std::move(run)));
  return runs;
}

void sort_runs(std::vector<ListedRun>& runs, const std::string& key) {
  if (runs.empty()) return;
  const bool is_column = column_value(runs[0].overview, key).has_value();
  const std::string wanted = is_column ? key : key_named(runs, key);
  const auto value_of = [&](const ListedRun& run) {
    if (is_column) return *column_value(run.overview, wanted);
    const auto found = run.settings.find(wanted);
    if (found == run.settings.end()) return SortValue{};
    return SortValue{.number = leading_number(found->second), .text = found->second};
  };
  std::ranges::stable_sort(runs, comes_first, value_of);
}

std::string name_of(const RunOverview& run, const std::filesystem::path& root) {
  const std::string name = run.directory.lexically_relative(root).string();
  return one_line(name.empty() || name == "." ? run.directory.string() : name);
}

std::optional<double> leading_number(const std::string& text) {
  double number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && std::isfinite(number) ? std::optional(number) : std::nullopt;
}

void print_run_table(const std::vector<ListedRun>& runs, const std::filesystem::path& root) {
  std::vector<Settings> settings;
  for (const ListedRun& run : runs) settings.push_back(run.settings);
  const std::vector<std::string> keys = differing_keys(settings);
  const std::vector<std::string> names = short_names(keys);
  std::vector<Column> key_columns;
  for (size_t i = 0; i < keys.size(); ++i) key_columns.push_back(key_column(runs, keys[i], names[i]));
  const std::optional<size_t> terminal = output_width();
  const size_t width = terminal.value_or(keys.empty() ? kTableWidth : kWidthWithKeys);
  ChosenColumns chosen = choose_columns(fixed_columns(runs, root), key_columns, width);
  print_columns(chosen.columns, width);
  if (chosen.keys < keys.size())
    print_text("and {} more: --json prints all keys in which these runs differ\n", keys.size() - chosen.keys);
  for (const ListedRun& run : runs) print_reason(run.overview, root, terminal.value_or(kTableWidth));
}

}  // namespace trainer
