// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/run_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "apps/trainer/standard_streams.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/run/run_history.h"

namespace trainer {
namespace {

constexpr size_t kMostEpochs = 20;  // of validation that are printed

/// A line with a value of each run.
struct Beside {
  std::string name;
  std::vector<std::string> values;
};

std::string setting(const Settings& settings, const std::string& key) {
  const auto found = settings.find(key);
  return found == settings.end() ? "-" : one_line(found->second);
}

std::vector<std::string> keys_of(const std::vector<ListedRun>& runs, bool all) {
  std::vector<Settings> settings;
  for (const ListedRun& run : runs) settings.push_back(run.settings);
  if (!all) return differing_keys(settings);
  std::set<std::string> keys;
  for (const Settings& each : settings)
    for (const auto& [key, value] : each) keys.insert(key);
  return {keys.begin(), keys.end()};
}

std::vector<Beside> setting_lines(const std::vector<ListedRun>& runs, bool all) {
  std::vector<Beside> lines;
  for (const std::string& key : keys_of(runs, all)) {
    lines.push_back({key, {}});
    for (const ListedRun& run : runs) lines.back().values.push_back(setting(run.settings, key));
  }
  return lines;
}

std::string text_of(const std::optional<double>& value, const char* digits) {
  return value ? fmt::format(fmt::runtime(digits), *value) : "-";
}

std::vector<Beside> outcome(const std::vector<ListedRun>& runs) {
  std::vector<Beside> lines;
  const auto add = [&](const std::string& name, const auto& text) {
    lines.push_back({name, {}});
    for (const ListedRun& run : runs) lines.back().values.push_back(text(run.overview));
  };
  const std::string& metric = runs[0].overview.metric;
  const bool same_metric =
      std::ranges::all_of(runs, [&](const ListedRun& run) { return run.overview.metric == metric; });
  add("state", [](const RunOverview& run) { return std::string(to_string(run.state)); });
  add("step", [](const RunOverview& run) {
    return run.steps ? fmt::format("{}/{}", run.step, *run.steps) : fmt::format("{}", run.step);
  });
  add(same_metric && !metric.empty() ? "best " + metric : "best", [&](const RunOverview& run) {
    return run.best ? fmt::format("{}{:.4f}", same_metric ? "" : run.metric + " ", *run.best) : "-";
  });
  add("training loss", [](const RunOverview& run) { return text_of(run.loss, "{:.4f}"); });
  add("samples/s",
      [](const RunOverview& run) { return run.samples_per_s ? human_rate(*run.samples_per_s) : "-"; });
  return lines;
}

/// A run's validation results, by epochs trained until then: runs with other batch sizes have other steps.
using Validation = std::map<double, NamedNumbers>;

Validation validation_of(const std::filesystem::path& directory) {
  Validation all;
  for (const MetricsRecord& record : read_history(directory).validation) {
    NamedNumbers numbers = {{"loss", record.loss}};
    numbers.insert(numbers.end(), record.metrics.begin(), record.metrics.end());
    all[record.epoch] = numbers;
  }
  return all;
}

std::optional<double> number_named(const Validation& validation, double epoch, const std::string& name) {
  const auto at = validation.find(epoch);
  if (at == validation.end()) return std::nullopt;
  for (const auto& [key, number] : at->second)
    if (key == name) return to_double(number);
  return std::nullopt;
}

/// The names of the first run's metrics, then those that only the others have.
std::vector<std::string> metrics_of(const std::vector<Validation>& all) {
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const Validation& validation : all) {
    if (validation.empty()) continue;
    for (const auto& [name, number] : validation.rbegin()->second)
      if (known.insert(name).second) names.push_back(name);
  }
  return names;
}

std::vector<double> epochs_of(const std::vector<Validation>& all, size_t most) {
  std::set<double> found;
  for (const Validation& validation : all)
    for (const auto& [epoch, numbers] : validation) found.insert(epoch);
  std::vector<double> epochs(found.begin(), found.end());
  if (epochs.size() <= most) return epochs;
  std::vector<double> chosen;
  for (size_t i = 0; i < most; ++i) chosen.push_back(epochs[i * (epochs.size() - 1) / (most - 1)]);
  return chosen;
}

std::vector<Beside> validation_lines(const std::vector<ListedRun>& runs) {
  std::vector<Validation> all;
  for (const ListedRun& run : runs) all.push_back(validation_of(run.overview.directory));
  const std::vector<double> epochs = epochs_of(all, kMostEpochs);
  std::vector<Beside> lines;
  for (const std::string& name : metrics_of(all)) {
    for (const double epoch : epochs) {
      lines.push_back({fmt::format("{} at epoch {:.6g}", one_line(name), epoch), {}});
      for (const Validation& validation : all)
        lines.back().values.push_back(text_of(number_named(validation, epoch, name), "{:.4f}"));
    }
  }
  return lines;
}

/// The widths of the columns: of the names, then of each run.
std::vector<size_t> widths_of(const std::vector<std::string>& heads,
                              const std::vector<std::vector<Beside>>& parts) {
  constexpr size_t kLeast = 8;
  std::vector<size_t> widths = {0};
  for (const std::string& head : heads) widths.push_back(head.size());
  for (const std::vector<Beside>& lines : parts) {
    for (const Beside& line : lines) {
      widths[0] = std::max(widths[0], line.name.size() + 2);
      for (size_t i = 0; i < line.values.size(); ++i)
        widths[i + 1] = std::max(widths[i + 1], line.values[i].size());
    }
  }
  const std::optional<size_t> terminal = output_width();
  if (!terminal) return widths;
  widths[0] = std::min(widths[0], *terminal / 2);
  // Narrow columns leave their rest to the wide ones.
  size_t room = *terminal - widths[0];
  std::vector<size_t> order(heads.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i + 1;
  std::ranges::sort(order, {}, [&](size_t i) { return widths[i]; });
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t share = room / (order.size() - i);
    widths[order[i]] = std::min(widths[order[i]], std::max(kLeast, share > 2 ? share - 2 : 0));
    room -= std::min(room, widths[order[i]] + 2);
  }
  return widths;
}

void print_line(const std::string& name, const std::vector<std::string>& values,
                const std::vector<size_t>& widths) {
  std::string line = fmt::format("{:<{}}", shortened_name(name, widths[0]), widths[0]);
  for (size_t i = 0; i < values.size(); ++i)
    line += fmt::format("  {:<{}}", shortened_name(values[i], widths[i + 1]), widths[i + 1]);
  print_text("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
}

void print_lines(const std::string& title, const std::vector<Beside>& lines,
                 const std::vector<size_t>& widths) {
  if (lines.empty()) return;
  print_text("\n{}\n", title);
  for (const Beside& line : lines) print_line("  " + line.name, line.values, widths);
}

}  // namespace

Json setting_json(const std::string& text) {
  double number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem == std::errc() && end == text.data() + text.size() && std::isfinite(number)) return number;
  if (text == "true" || text == "false") return text == "true";
  return text == "null" ? Json() : Json(text);
}

Json overview_json(const RunOverview& run, const std::string& name) {
  Json json = {{"name", name},
               {"directory", run.directory.string()},
               {"state", to_string(run.state)},
               {"step", run.step}};
  const auto add = [&](const char* key, const auto& value) {
    if (value) json[key] = *value;
  };
  add("steps", run.steps);
  if (run.best)
    json["best"] = {{"metric", run.metric}, {"value", *run.best}, {"step", run.best_step.value_or(0)}};
  add("loss", run.loss);
  add("samples_per_s", run.samples_per_s);
  json["updated"] = run.updated;
  add("exit_code", run.exit_code);
  if (!run.message.empty()) json["message"] = run.message;
  return json;
}

void print_comparison(const std::vector<ListedRun>& runs, bool all) {
  const std::vector<std::vector<Beside>> parts = {outcome(runs), setting_lines(runs, all),
                                                  validation_lines(runs)};
  std::vector<std::string> heads;
  for (const ListedRun& run : runs) heads.push_back(one_line(run.overview.directory.string()));
  const std::vector<size_t> widths = widths_of(heads, parts);
  print_line("", heads, widths);
  print_lines("outcome", parts[0], widths);
  print_lines(all ? "settings" : "settings that differ", parts[1], widths);
  if (parts[1].empty()) print_text("\nno settings differ\n");
  print_lines("validation", parts[2], widths);
}

Json comparison_json(const std::vector<ListedRun>& runs, bool all) {
  Json settings = Json::object(), overviews = Json::array(), validation = Json::array();
  for (const std::string& key : keys_of(runs, all)) {
    Json values = Json::array();
    for (const ListedRun& run : runs) {
      const auto found = run.settings.find(key);
      values.push_back(setting_json(found == run.settings.end() ? "-" : found->second));
    }
    settings.add(key, values);
  }
  for (const ListedRun& run : runs) {
    overviews.push_back(overview_json(run.overview, run.overview.directory.string()));
    Json records = Json::array();
    for (const auto& [epoch, numbers] : validation_of(run.overview.directory)) {
      Json record = {{"epoch", epoch}};
      for (const auto& [name, number] : numbers) {
        const double value = to_double(number);
        record[name] = std::isfinite(value) ? Json(value) : Json();
      }
      records.push_back(record);
    }
    validation.push_back(records);
  }
  return {{"runs", overviews}, {"settings", settings}, {"validation", validation}};
}

}  // namespace trainer
