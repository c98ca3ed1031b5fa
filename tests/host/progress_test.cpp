// SPDX-License-Identifier: Apache-2.0
#include "core/host/progress.h"

#include <fcntl.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <vector>

#include "core/base/file.h"
#include "core/host/log.h"
#include "tests/storage/file_size_limit.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using test::contents;
using test::error_text;
using test::ScratchDirectory;

/// A Progress that writes into a file, with a clock and a width of the test's.
struct Screen {
  explicit Screen(bool terminal) : file(open_file(scratch / "screen", O_WRONLY | O_CREAT | O_APPEND)) {
    Progress::Options options;
    options.fd = file.get();
    options.terminal = terminal;
    options.width = [this] { return columns; };
    options.clock = [this] { return now; };
    progress.emplace(options);
  }
  std::string shown() const { return contents(scratch / "screen"); }

  ScratchDirectory scratch;
  FileDescriptor file;
  int columns = 80;
  double now = 1000;
  std::optional<Progress> progress;
};

ProgressState state_at(int64_t step, int64_t steps = 1000) {
  ProgressState state;
  state.step = step;
  state.steps = steps;
  state.epoch = 1 + step / 100;
  state.epochs = 10;
  state.loss = 2.0 / static_cast<double>(step + 1);
  state.samples_per_s = 12345.6;
  state.data_wait = 0.034;
  state.lr = 0.01;
  if (step > 0) state.metric = "top1", state.last = 0.8934, state.best = 0.9012;
  return state;
}

/// The screen's text as shown at the end by a terminal with that many columns; fails if a line would wrap.
std::vector<std::string> rendered(const std::string& text, size_t columns) {
  std::vector<std::string> lines(1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      lines.emplace_back();
    } else if (text[i] == '\r') {
      REQUIRE(text.substr(i, 4) == "\r\x1b[K");
      lines.back().clear();
      i += 3;
    } else {
      lines.back() += text[i];
      REQUIRE(lines.back().size() < columns);
    }
  }
  return lines;
}

TEST_CASE("progress: outside a terminal there are plain lines at intervals") {
  Screen screen(false);
  for (int64_t step = 1; step <= 1000; ++step, screen.now += 0.0625) screen.progress->update(state_at(step));
  screen.progress->print_line("epoch 10: top1 0.9");
  screen.progress.reset();
  const std::string text = screen.shown();
  CHECK(std::ranges::none_of(
      text, [](char c) { return (static_cast<unsigned char>(c) < 32 && c != '\n') || c == 127; }));
  CHECK(std::ranges::count(text, '\n') == 8);  // at 0, 10, … 60 of 62 seconds, and the result
  CHECK(
      text.starts_with("step 1/1000  epoch 1/10    0%  eta --:--  loss 1.0000  12346 samples/s  wait 3%\n"));
  CHECK(text.find("\nstep 161/1000  epoch 2/10   16%  eta 0:52  loss 0.0123  ") != std::string::npos);
  CHECK(text.ends_with("\nepoch 10: top1 0.9\n"));
}

TEST_CASE("progress: a terminal's line changes at most ten times a second") {
  Screen screen(true);
  for (int i = 0; i < 1000; ++i, screen.now += 0.001) screen.progress->update(state_at(i));
  CHECK(std::ranges::count(screen.shown(), '\r') == 10);
  CHECK_FALSE(screen.progress->due());
  screen.now += 0.2;
  CHECK(screen.progress->due());
}

TEST_CASE("progress: a terminal's line fits every width") {
  for (const int columns : {1, 2, 3, 10, 20, 40, 79, 80, 81, 120, 400}) {
    Screen screen(true);
    screen.columns = columns;
    for (const int64_t step : {0, 1, 500, 999, 1000}) {
      screen.now += 1;
      screen.progress->update(state_at(step));
      const std::string line = rendered(screen.shown(), static_cast<size_t>(columns)).back();
      CHECK(line.size() < static_cast<size_t>(columns));
      if (columns >= 20) CHECK(line.starts_with("step "));
      if (columns >= 40) CHECK(line.find(" eta ") != std::string::npos);
    }
    CHECK(screen.shown().find('\n') == std::string::npos);
  }
}

TEST_CASE("progress: the values of a run come before the bar, and narrow terminals have the most important") {
  const std::string all =
      "step   10/1000  epoch 1/10  loss 0.1818  lr 0.01  top1 0.8934  best 0.9012  12.3k samples/s  eta 0:52 "
      " "
      "wait 3%";
  CHECK(progress_line(state_at(10), "0:52", 200) == all + "  [" + std::string(30, '.') + "]");
  CHECK(progress_line(state_at(10), "0:52", 115) == all);
  CHECK(progress_line(state_at(10), "0:52", 100) ==
        "step   10/1000 epoch 1/10 loss 0.1818 lr 0.01 top1 0.8934 best 0.9012 12.3k samples/s eta 0:52");
  CHECK(progress_line(state_at(10), "0:52", 80) ==
        "step   10/1000 epoch 1/10 loss 0.1818 lr 0.01 top1 0.8934 best 0.9012 eta 0:52");
  CHECK(progress_line(state_at(10), "0:52", 50) == "step   10/1000 loss 0.1818 top1 0.8934 eta 0:52");
  CHECK(progress_line(state_at(0), "--:--", 80).find("top1") == std::string::npos);
}

TEST_CASE("progress: strange numbers fit as well") {
  ProgressState state = state_at(5, 0);
  state.loss = std::nan("");
  state.samples_per_s = 1e300;
  state.epoch = INT64_MAX;
  for (int width = -1; width < 500; ++width) {
    CHECK(progress_line(state, "--:--", width).size() <= static_cast<size_t>(std::max(width - 1, 0)));
  }
}

TEST_CASE("progress: the bar grows with the steps and never outruns them") {
  const auto filled = [](int64_t step) {
    return std::ranges::count(progress_line(state_at(step), "0:01", 160), '=');
  };
  CHECK(filled(0) == 0);
  CHECK(filled(500) == 15);
  CHECK(filled(999) == 29);
  CHECK(filled(1000) == 30);
  CHECK(filled(2000) == 30);
}

TEST_CASE("progress: a message stands above the changing line, which goes at the end") {
  Screen screen(true);
  Log log(*screen.progress);
  log.info("before");
  screen.progress->update(state_at(10));
  log.warn("careful");
  const auto during = rendered(screen.shown(), 80);
  REQUIRE(during.size() == 3);
  CHECK(during[0] == "before");
  CHECK(during[1] == "warning: careful");
  CHECK(during[2].starts_with("step   10/1000"));
  screen.columns = 30;
  log.error("narrow");
  CHECK(rendered(screen.shown(), 80).back().size() < 30);
  screen.progress->finish();
  log.info("after");
  const auto after = rendered(screen.shown(), 80);
  CHECK(after[2] == "error: narrow");
  CHECK(after[3] == "after");
  CHECK(after.back().empty());
}

TEST_CASE("progress: a file is no terminal, nor is one that cannot move its cursor") {
  const ScratchDirectory scratch;
  const FileDescriptor file = open_file(scratch / "f", O_WRONLY | O_CREAT);
  CHECK_FALSE(Progress::for_terminal(file.get()));
  const FileDescriptor terminal(::posix_openpt(O_RDWR | O_NOCTTY));
  REQUIRE(terminal.get() >= 0);
  const char* before = ::getenv("TERM");
  const std::optional<std::string> kept = before ? std::optional<std::string>(before) : std::nullopt;
  ::setenv("TERM", "xterm", 1);
  CHECK(Progress::for_terminal(terminal.get()));
  ::setenv("TERM", "dumb", 1);
  CHECK_FALSE(Progress::for_terminal(terminal.get()));
  ::unsetenv("TERM");
  CHECK_FALSE(Progress::for_terminal(terminal.get()));
  if (kept) ::setenv("TERM", kept->c_str(), 1);
}

TEST_CASE("log: the file's lines carry the time, the screen's do not") {
  Screen screen(false);
  Log log(*screen.progress);
  log.info("not yet attached");
  log.attach(screen.scratch / "log.txt");
  log.info("started");
  log.warn("slow");
  log.error("broken");
  CHECK(screen.shown() == "not yet attached\nstarted\nwarning: slow\nerror: broken\n");
  std::string file = contents(screen.scratch / "log.txt");
  CHECK(file.substr(20).starts_with(" started\n"));
  std::ranges::replace_if(
      file, [](char c) { return c >= '0' && c <= '9'; }, '9');
  const std::string time = "9999-99-99T99:99:99Z ";
  CHECK(file == time + "started\n" + time + "warning: slow\n" + time + "error: broken\n");
}

TEST_CASE("log: a file that can no longer be written is said once and ends nothing") {
  constexpr size_t kWritten = 1000;  // more than is written to the screen, which is a file too
  Screen screen(false);
  Log log(*screen.progress);
  const std::filesystem::path path = screen.scratch / "log.txt";
  std::ofstream(path) << std::string(kWritten, '.');
  log.attach(path);
  {
    const test::FileSizeLimit full(kWritten);
    log.info("one");
  }
  log.info("two");
  CHECK(screen.shown() ==
        "one\nwarning: " + path.string() + ": write: File too large; logging to this file stops\ntwo\n");
  CHECK(contents(path).size() == kWritten);
  error_text(ExitCode::io, [&] { log.attach(screen.scratch / "no/log.txt"); });
}

}  // namespace
}  // namespace trainer
