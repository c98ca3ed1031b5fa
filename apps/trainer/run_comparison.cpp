// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/run_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "apps/trainer/standard_streams.h"
#include "core/run/run_history.h"

namespace trainer {
namespace {

constexpr size_t kMostEpochs = 20;  // of validation that are printed

struct Beside {
  std::string name, a, b;
};

std::string setting(const Settings& settings, const std::string& key) {
  const auto found = settings.find(key);
  return found == settings.end() ? "-" : found->second;
}

std::vector<std::string> keys_of(const ListedRun& a, const ListedRun& b, bool all) {
  if (!all) return differing_keys({a.settings, b.settings});
  Settings both = a.settings;
  both.insert(b.settings.begin(), b.settings.end());
  std::vector<std::string> keys;
  for (const auto& [key, value] : both) keys.push_back(key);
  return keys;
}

std::vector<Beside> setting_lines(const ListedRun& a, const ListedRun& b, bool all) {
  std::vector<Beside> lines;
  for (const std::string& key : keys_of(a, b, all))
    lines.push_back({key, setting(a.settings, key), setting(b.settings, key)});
  return lines;
}

std::string text_of(const std::optional<double>& value, const char* digits) {
  return value ? fmt::format(fmt::runtime(digits), *value) : "-";
}

Beside line_of(const std::string& name, const RunOverview& a, const RunOverview& b, const auto& text) {
  return {name, text(a), text(b)};
}

std::vector<Beside> outcome(const RunOverview& a, const RunOverview& b) {
  std::vector<Beside> lines;
  lines.push_back(
      line_of("state", a, b, [](const RunOverview& run) { return std::string(to_string(run.state)); }));
  lines.push_back(line_of("step", a, b, [](const RunOverview& run) {
    return run.steps ? fmt::format("{}/{}", run.step, *run.steps) : fmt::format("{}", run.step);
  }));
  const bool same_metric = a.metric == b.metric;
  lines.push_back(line_of(
      same_metric && !a.metric.empty() ? "best " + a.metric : "best", a, b, [&](const RunOverview& run) {
        return run.best ? fmt::format("{}{:.4f}", same_metric ? "" : run.metric + " ", *run.best) : "-";
      }));
  lines.push_back(
      line_of("training loss", a, b, [](const RunOverview& run) { return text_of(run.loss, "{:.4f}"); }));
  lines.push_back(line_of("samples/s", a, b,
                          [](const RunOverview& run) { return text_of(run.samples_per_s, "{:.0f}"); }));
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

/// The names of the first run's metrics, then those that only the second has.
std::vector<std::string> metrics_of(const Validation& a, const Validation& b) {
  std::vector<std::string> names;
  for (const Validation* validation : {&a, &b}) {
    if (validation->empty()) continue;
    for (const auto& [name, number] : validation->rbegin()->second)
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

std::vector<double> epochs_of(const Validation& a, const Validation& b, size_t most) {
  std::vector<double> epochs;
  for (const auto& [epoch, numbers] : a) epochs.push_back(epoch);
  for (const auto& [epoch, numbers] : b)
    if (!a.contains(epoch)) epochs.push_back(epoch);
  std::ranges::sort(epochs);
  if (epochs.size() <= most) return epochs;
  std::vector<double> chosen;
  for (size_t i = 0; i < most; ++i) chosen.push_back(epochs[i * (epochs.size() - 1) / (most - 1)]);
  return chosen;
}

std::vector<Beside> validation_lines(const Validation& a, const Validation& b) {
  std::vector<Beside> lines;
  for (const std::string& name : metrics_of(a, b)) {
    for (const double epoch : epochs_of(a, b, kMostEpochs)) {
      lines.push_back({fmt::format("{} at epoch {:.6g}", name, epoch),
                       text_of(number_named(a, epoch, name), "{:.4f}"),
                       text_of(number_named(b, epoch, name), "{:.4f}")});
    }
  }
  return lines;
}

void print_lines(const std::string& title, const std::vector<Beside>& lines, size_t name_width,
                 size_t value_width) {
  if (lines.empty()) return;
  print_text("\n{}\n", title);
  for (const Beside& line : lines)
    print_text("  {:<{}}  {:<{}}  {}\n", line.name, name_width, line.a, value_width, line.b);
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
  if (run.best) json["best"] = {{"metric", run.metric}, {"value", *run.best}};
  add("loss", run.loss);
  add("samples_per_s", run.samples_per_s);
  json["updated"] = run.updated;
  add("exit_code", run.exit_code);
  if (!run.message.empty()) json["message"] = run.message;
  return json;
}

void print_comparison(const ListedRun& a, const ListedRun& b, bool all) {
  const std::vector<Beside> settings = setting_lines(a, b, all);
  const std::vector<Beside> went = outcome(a.overview, b.overview);
  const std::vector<Beside> validation =
      validation_lines(validation_of(a.overview.directory), validation_of(b.overview.directory));
  const std::string a_name = a.overview.directory.string(), b_name = b.overview.directory.string();
  size_t name_width = 0, value_width = a_name.size();
  for (const std::vector<Beside>* lines : {&settings, &went, &validation}) {
    for (const Beside& line : *lines)
      name_width = std::max(name_width, line.name.size()), value_width = std::max(value_width, line.a.size());
  }
  print_text("{:<{}}  {:<{}}  {}\n", "", name_width + 2, a_name, value_width, b_name);
  print_lines("outcome", went, name_width, value_width);
  print_lines(all ? "settings" : "settings that differ", settings, name_width, value_width);
  if (settings.empty()) print_text("\nno settings differ\n");
  print_lines("validation", validation, name_width, value_width);
}

Json comparison_json(const ListedRun& a, const ListedRun& b, bool all) {
  Json settings = Json::object(), runs = Json::array(), validation = Json::array();
  for (const std::string& key : keys_of(a, b, all))
    settings[key] =
        Json::array({setting_json(setting(a.settings, key)), setting_json(setting(b.settings, key))});
  for (const ListedRun* run : {&a, &b}) {
    runs.push_back(overview_json(run->overview, run->overview.directory.string()));
    Json records = Json::array();
    for (const auto& [epoch, numbers] : validation_of(run->overview.directory)) {
      Json record = {{"epoch", epoch}};
      for (const auto& [name, number] : numbers) {
        const double value = to_double(number);
        record[name] = std::isfinite(value) ? Json(value) : Json();
      }
      records.push_back(record);
    }
    validation.push_back(records);
  }
  return {{"runs", runs}, {"settings", settings}, {"validation", validation}};
}

}  // namespace trainer
