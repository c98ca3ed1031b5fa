// SPDX-License-Identifier: Apache-2.0
#include "core/host/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "core/base/file.h"
#include "core/base/units.h"
#include "core/host/process.h"

namespace trainer {
namespace {

constexpr const char* kClearLine = "\r\x1b[K";
constexpr int kDefaultWidth = 80;
constexpr int kLongestBar = 30, kShortestBar = 5;

int terminal_width(int fd) {
  winsize size = {};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultWidth;
  return size.ws_col;
}

double fraction_done(const ProgressState& state) {
  if (state.steps <= 0) return 0;
  return std::clamp(static_cast<double>(state.step) / static_cast<double>(state.steps), 0.0, 1.0);
}

/// Of one width for most losses: the bar before it would jump otherwise.
std::string loss_text(double loss) {
  const bool ordinary = std::abs(loss) >= 1e-3 && std::abs(loss) < 1e3;
  return ordinary ? fmt::format("loss {:.4f}", loss) : fmt::format("loss {:.2e}", loss);
}

/// The parts of a plain line.
std::vector<std::string> parts_of(const ProgressState& state, const std::string& eta) {
  const std::string epochs = state.epochs > 0 ? fmt::format("/{}", state.epochs) : "";
  // Rounded down: 100% is shown only when all is done.
  const int percent = static_cast<int>(fraction_done(state) * 100);
  return {fmt::format("epoch {}{}", state.epoch, epochs),
          fmt::format("{:3}%", percent),
          fmt::format("eta {}", eta),
          loss_text(state.loss),
          state.tokens_per_s > 0 ? human_rate(state.tokens_per_s) + " tokens/s"
                                 : human_rate(state.samples_per_s) + " samples/s",
          fmt::format("wait {:.0f}%", state.data_wait * 100)};
}

/// Of one width for most numbers: "16.2k samples/s".
std::string speed_text(const ProgressState& state) {
  const bool has_tokens = state.tokens_per_s > 0;
  const double speed = has_tokens ? state.tokens_per_s : state.samples_per_s;
  const std::string number = speed >= 1e6   ? fmt::format("{:.3g}M", speed / 1e6)
                             : speed >= 1e4 ? fmt::format("{:.1f}k", speed / 1e3)
                                            : human_rate(speed);
  return number + (has_tokens ? " tokens/s" : " samples/s");
}

/// A part of the changing line; those with the highest rank are left out first.
struct Part {
  std::string text;
  int rank;
};

std::vector<Part> changing_parts(const ProgressState& state, const std::string& eta) {
  const std::string epochs = state.epochs > 0 ? fmt::format("/{}", state.epochs) : "";
  const std::string steps = fmt::format("{}", state.steps);
  std::vector<Part> parts = {{fmt::format("step {:>{}}/{}", state.step, steps.size(), steps), 0},
                             {fmt::format("epoch {}{}", state.epoch, epochs), 4},
                             {loss_text(state.loss), 1},
                             {fmt::format("lr {:.3g}", state.lr), 6}};
  if (!state.metric.empty()) {
    parts.push_back({fmt::format("{} {:.4f}", state.metric, state.last), 3});
    parts.push_back({fmt::format("best {:.4f}", state.best), 5});
  }
  parts.push_back({speed_text(state), 7});
  parts.push_back({fmt::format("eta {}", eta), 2});
  if (state.data_wait >= 0.01) parts.push_back({fmt::format("wait {:.0f}%", state.data_wait * 100), 8});
  return parts;
}

std::string joined(const std::vector<Part>& parts, const char* blanks) {
  std::string line;
  for (const Part& part : parts) line += (line.empty() ? "" : blanks) + part.text;
  return line;
}

}  // namespace

std::string progress_line(const ProgressState& state, const std::string& eta, int width) {
  const size_t room = static_cast<size_t>(std::max(width - 1, 0));
  std::vector<Part> parts = changing_parts(state, eta);
  std::string line = joined(parts, "  ");
  while (line.size() > room) {
    line = joined(parts, " ");
    if (line.size() <= room || parts.size() == 1) break;
    parts.erase(std::ranges::max_element(parts, {}, &Part::rank));
    line = joined(parts, "  ");
  }
  if (line.size() > room) return line.substr(0, room);
  const int bar = std::min(static_cast<int>(room - line.size()) - 4, kLongestBar);
  if (bar < kShortestBar) return line;
  const auto filled = static_cast<size_t>(fraction_done(state) * bar);
  const std::string drawn = std::string(filled, '=') + std::string(static_cast<size_t>(bar) - filled, '.');
  return line + fmt::format("  [{}]", drawn);
}

bool Progress::for_terminal(int fd) {
  const char* kind = std::getenv("TERM");
  return ::isatty(fd) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

Progress::Progress(Options options) : options_(std::move(options)) {
  if (!options_.clock) options_.clock = steady_seconds;
  if (!options_.width) options_.width = [fd = options_.fd] { return terminal_width(fd); };
  next_ = options_.clock();
}

std::string Progress::eta(const ProgressState& state, double now) const {
  if (state.step <= first_step_) return "--:--";
  const double per_step = (now - started_) / static_cast<double>(state.step - first_step_);
  return human_seconds(per_step * static_cast<double>(std::max<int64_t>(state.steps - state.step, 0)));
}

void Progress::update(const ProgressState& state) {
  const double now = options_.clock();
  if (now < next_) return;
  if (first_step_ < 0) {
    first_step_ = state.step;
    started_ = now;
  }
  next_ = now + (options_.terminal ? options_.terminal_interval_s : options_.plain_interval_s);
  if (options_.terminal) {
    line_ = progress_line(state, eta(state, now), options_.width());
    write(kClearLine + line_);
  } else {
    const std::string step = fmt::format("step {}/{}", state.step, state.steps);
    write(fmt::format("{}  {}\n", step, fmt::join(parts_of(state, eta(state, now)), "  ")));
  }
}

void Progress::print_line(std::string_view text) {
  if (line_.empty()) {
    write(fmt::format("{}\n", text));
  } else {
    // The terminal may have become narrower since the line was made.
    const auto room = static_cast<size_t>(std::max(options_.width() - 1, 0));
    write(fmt::format("{}{}\n{}", kClearLine, text, line_.substr(0, room)));
  }
}

void Progress::finish() {
  if (!line_.empty()) write(kClearLine);
  line_.clear();
}

void Progress::write(std::string_view text) const {
  static_cast<void>(write_all(options_.fd, text));
}

}  // namespace trainer
