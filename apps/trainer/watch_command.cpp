// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>

#include "apps/trainer/commands.h"
#include "apps/trainer/run_table.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/printable.h"
#include "core/host/progress.h"
#include "core/report/chart.h"
#include "core/report/terminal_chart.h"
#include "core/run/run_history.h"

namespace trainer {
namespace {

constexpr std::chrono::seconds kPause(2);
constexpr size_t kUsualWidth = 80, kLeastWidth = 30, kMostWidth = 160;
constexpr size_t kChartHeight = 6;
constexpr size_t kLatest = 5;  // records of validation that are printed

size_t terminal_width() {
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualWidth;
  return std::clamp<size_t>(size.ws_col, kLeastWidth, kMostWidth);
}

std::string head(const RunOverview& run) {
  std::string text =
      fmt::format("{}: {}, step {}", one_line(run.directory.string()), to_string(run.state), run.step);
  if (run.steps) {
    text += fmt::format("/{}", *run.steps);
    if (*run.steps > 0)
      text +=
          fmt::format(" ({:.0f} %)", 100.0 * static_cast<double>(run.step) / static_cast<double>(*run.steps));
  }
  if (run.samples_per_s) text += fmt::format(", {:.0f} samples/s", *run.samples_per_s);
  if (run.best) text += fmt::format(", best {} {:.4f}", one_line(run.metric), *run.best);
  text += fmt::format(", {} s ago\n", std::max<int64_t>(0, std::time(nullptr) - run.updated));
  if (!run.message.empty()) text += run.message + "\n";
  for (const std::string& problem : run.problems) text += "warning: " + problem + "\n";
  return text;
}

std::string chart(const std::string& title, const Points& points, size_t width) {
  std::string text;
  for (const std::string& line : terminal_chart(title, points, width, kChartHeight)) text += line + "\n";
  return text;
}

std::string curves(const RunHistory& history, size_t width) {
  Points loss;
  for (const MetricsRecord& record : history.training) loss.emplace_back(record.step, record.loss);
  std::string text = chart("training loss", loss, width);
  if (history.validation.empty()) return text;
  const MetricsRecord& last = history.validation.back();
  const std::string name = last.metrics.empty() ? "loss" : last.metrics[0].first;
  Points values;
  for (const MetricsRecord& record : history.validation) {
    double value = record.loss;
    for (const auto& [key, number] : record.metrics)
      if (key == name) value = to_double(number);
    values.emplace_back(record.step, value);
  }
  return text + chart("validation " + one_line(name), values, width);
}

std::string latest(const RunHistory& history) {
  std::string text;
  const size_t count = history.validation.size();
  for (size_t i = count - std::min(count, kLatest); i < count; ++i) {
    const MetricsRecord& record = history.validation[i];
    text +=
        fmt::format("step {} epoch {:.4g}: validation loss {:.4f}", record.step, record.epoch, record.loss);
    for (const auto& [name, value] : record.metrics)
      text += fmt::format(" {} {:.4f}", one_line(name), to_double(value));
    text += "\n";
  }
  return text;
}

std::string view_of(const RunOverview& run, size_t width) {
  const RunHistory history = read_history(run.directory);
  if (history.training.empty() && history.validation.empty())
    return printable(head(run) + "no metrics yet\n");
  return printable(head(run) + curves(history, width) + latest(history));
}

}  // namespace

int watch_command(const Arguments& arguments) {
  RunOverview run = run_in(arguments.path);
  if (!Progress::for_terminal(STDOUT_FILENO)) {
    print_to_output(view_of(run, kUsualWidth));
    return 0;
  }
  while (true) {
    // Each line is cleared to its right, and the screen below the last one: nothing flickers.
    std::string screen = "\x1b[H";
    for (const char c : view_of(run, terminal_width()))
      screen += c == '\n' ? std::string("\x1b[K\n") : std::string(1, c);
    if (!write_at_once(screen + "\x1b[J") || run.state != RunCondition::running) return 0;
    std::this_thread::sleep_for(kPause);
    run = run_in(arguments.path);
  }
}

}  // namespace trainer
