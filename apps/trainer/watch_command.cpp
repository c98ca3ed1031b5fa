// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <thread>

#include "apps/trainer/commands.h"
#include "apps/trainer/run_table.h"
#include "apps/trainer/standard_streams.h"
#include "apps/trainer/sweep_screen.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/host/progress.h"
#include "core/report/chart.h"
#include "core/report/terminal_chart.h"
#include "core/run/run_history.h"
#include "core/sweep/sweep_directory.h"
#include "core/train/time_shares.h"

namespace trainer {
namespace {

constexpr std::chrono::seconds kPause(2);
constexpr size_t kUsualWidth = 80, kMostWidth = 160, kLeastName = 12;
constexpr size_t kChartHeight = 6;
constexpr size_t kLatest = 5;  // records of validation that are printed

std::string head(const RunOverview& run, size_t width) {
  std::string state = fmt::format(": {}, step {}", to_string(run.state), run.step);
  if (run.steps) {
    state += fmt::format("/{}", *run.steps);
    if (*run.steps > 0)
      state +=
          fmt::format(" ({:.0f} %)", 100.0 * static_cast<double>(run.step) / static_cast<double>(*run.steps));
  }
  const size_t room = width - std::min(width, state.size());
  std::string text =
      shortened_name(one_line(run.directory.string()), std::max(room, kLeastName)) + state + "\n";
  if (run.samples_per_s) text += human_rate(*run.samples_per_s) + " samples/s, ";
  if (run.best) text += fmt::format("best {} {:.4f}", one_line(run.metric), *run.best);
  if (run.best && run.best_step) text += fmt::format(" at step {}", *run.best_step);
  if (run.best) text += ", ";
  text += fmt::format("written {} s ago\n", std::max<int64_t>(0, std::time(nullptr) - run.updated));
  if (!run.message.empty()) text += run.message + "\n";
  for (const std::string& problem : run.problems) text += "warning: " + problem + "\n";
  return text;
}

std::string chart(const std::string& title, const Points& points, size_t width, const Points& marked = {}) {
  std::string text;
  for (const std::string& line : terminal_chart(title, points, width, kChartHeight, marked))
    text += line + "\n";
  return text;
}

std::string curves(const RunHistory& history, size_t width) {
  Points loss, validation;
  for (const MetricsRecord& record : history.training) loss.emplace_back(record.step, record.loss);
  for (const MetricsRecord& record : history.validation) validation.emplace_back(record.step, record.loss);
  const char* title = validation.empty() ? "training loss" : "training loss, and o: validation loss";
  std::string text = chart(title, loss, width, validation);
  if (history.validation.empty() || history.validation.back().metrics.empty()) return text;
  const std::string name = history.validation.back().metrics[0].first;
  Points values;
  for (const MetricsRecord& record : history.validation)
    values.emplace_back(record.step, number_in(record, name).value_or(std::nan("")));
  return text + chart("validation " + one_line(name), values, width, values);
}

/// A metric of the device, and how it is formatted: scaled by `factor`, with so many decimals.
struct ShownNumber {
  const char *key, *before, *after;
  double factor;
  int digits;
};
constexpr std::array kShownNumbers = {
    ShownNumber{"device_utilization", "used ", " %", 100, 0},
    ShownNumber{"flops_share", "", " % of its arithmetic rate", 100, 0},
    ShownNumber{"device_stolen", "taken by others ", " %", 100, 0},
    ShownNumber{"device_temperature_c", "", " °C", 1, 0},
    ShownNumber{"device_power_w", "", " W", 1, 0},
    ShownNumber{"device_clock_mhz", "", " GHz", 1e-3, 2},
    ShownNumber{"device_memory_bytes", "memory ", " GiB", 1.0 / (1 << 30), 1},
};

/// The device's condition and where the time went, since the last line but one of training.
std::string condition(const RunHistory& history) {
  if (history.training.empty()) return "";
  const MetricsRecord& record = history.training.back();
  std::vector<std::string> numbers;
  for (const ShownNumber& shown : kShownNumbers) {
    const auto value = number_in(record, shown.key);
    if (value && std::isfinite(*value))
      numbers.push_back(
          fmt::format("{}{:.{}f}{}", shown.before, *value * shown.factor, shown.digits, shown.after));
  }
  TimeShares shares;
  for (const TimePart& part : kTimeParts) shares.*part.seconds = number_in(record, part.key).value_or(0);
  std::string text;
  if (!numbers.empty()) text += fmt::format("device: {}\n", fmt::join(numbers, ", "));
  if (shares.total() > 0) text += fmt::format("time: {}\n", time_text(shares));
  return text;
}

constexpr size_t kMostRanks = 64;  // that are printed

/// A line for each of several ranks: what it last did, and its times in the last interval of training.
std::string rank_table(const RunOverview& run, const RunHistory& history) {
  if (run.rank_states.empty()) return "";
  const auto time_of = [&](size_t rank, const char* key) {
    const std::string name = fmt::format("rank{}_{}", rank, key);
    const auto value = history.training.empty() ? std::nullopt : number_in(history.training.back(), name);
    return value ? fmt::format("{:.1f}", *value) : std::string("-");
  };
  size_t host = 4;
  for (const RankState& rank : run.rank_states) host = std::max(host, rank.host.size());
  std::string text = fmt::format("rank  {:<{}}  {:<24} {:>9}  computing ms  data wait ms      memory  GPU\n",
                                 "host", host, "state", "step");
  for (size_t i = 0; i < std::min(run.rank_states.size(), kMostRanks); ++i) {
    const RankState& rank = run.rank_states[i];
    const std::string state = rank.activity + (rank.waits ? ", waiting" : "");
    text +=
        fmt::format("{:>4}  {:<{}}  {:<24} {:>9}  {:>12}  {:>12}  {:>10}  {:>3}\n", i, one_line(rank.host),
                    host, state, rank.step, time_of(i, "compute_ms"), time_of(i, "data_wait_ms"),
                    human_bytes(rank.bytes), rank.gpu ? std::to_string(*rank.gpu) : "-");
  }
  if (run.rank_states.size() > kMostRanks)
    text += fmt::format("and {} more ranks\n", run.rank_states.size() - kMostRanks);
  return text;
}

std::string latest(const RunOverview& run, const RunHistory& history) {
  const size_t count = history.validation.size(), begin = count - std::min(count, kLatest);
  size_t steps = 0, epochs = 0;
  for (size_t i = begin; i < count; ++i) {
    steps = std::max(steps, fmt::formatted_size("{}", history.validation[i].step));
    epochs = std::max(epochs, fmt::formatted_size("{:.4g}", history.validation[i].epoch));
  }
  std::string text;
  for (size_t i = begin; i < count; ++i) {
    const MetricsRecord& record = history.validation[i];
    text += fmt::format("step {:>{}} epoch {:>{}.4g}: validation loss {:.4f}", record.step, steps,
                        record.epoch, epochs, record.loss);
    for (const auto& [name, value] : record.metrics)
      text += fmt::format(" {} {:.4f}", one_line(name), to_double(value));
    text += record.step == run.best_step ? "  best\n" : "\n";
  }
  return text;
}

/// Without the ends of lines that a terminal would wrap. A character is taken for one column.
std::string cut(const std::string& text, size_t width) {
  std::string lines;
  size_t column = 0;
  for (const char c : text) {
    const bool is_begin = (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    column = c == '\n' ? 0 : column + (is_begin ? 1 : 0);
    if (column <= width) lines += c;
  }
  return lines;
}

std::string view_of(const RunOverview& run, size_t width) {
  const RunHistory history = read_history(run.directory);
  if (history.training.empty() && history.validation.empty())
    return printable(head(run, width) + "no metrics yet\n");
  return printable(head(run, width) + condition(history) + rank_table(run, history) + curves(history, width) +
                   latest(run, history));
}

/// What a run or a sweep looks like now.
struct Watched {
  std::string text;
  bool goes_on;  ///< something may change
};

Watched look_at(const std::string& path, size_t width) {
  const std::optional<SweepPlan> sweep = sweep_in(path);
  if (!sweep) {
    const RunOverview run = run_in(path);
    return {view_of(run, width), run.state == RunCondition::running};
  }
  std::string warnings;
  const TrialRecords records = read_trials(
      path, *sweep, [&](const std::string& text) { warnings += printable("warning: " + text + "\n"); });
  return {sweep_screen(*sweep, path, records, width) + warnings, !is_decided(*sweep, records)};
}

}  // namespace

int watch_command(const Arguments& arguments) {
  if (!Progress::for_terminal(STDOUT_FILENO)) {
    print_to_output(look_at(arguments.path, kUsualWidth).text);
    return 0;
  }
  while (true) {
    const size_t width = std::min(output_width().value_or(kUsualWidth), kMostWidth);
    const Watched view = look_at(arguments.path, width);
    // Each line is cleared to its right, and the screen below the last one: nothing flickers.
    std::string screen = "\x1b[H";
    for (const char c : cut(view.text, width))
      screen += c == '\n' ? std::string("\x1b[K\n") : std::string(1, c);
    if (!write_at_once(screen + "\x1b[J") || !view.goes_on) return 0;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace trainer
