// SPDX-License-Identifier: Apache-2.0
#include "core/host/stop.h"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <string_view>

#include "core/base/error.h"

namespace trainer {
namespace {

constexpr std::array<int, 4> kSignals = {SIGTERM, SIGUSR1, SIGINT, SIGHUP};
constexpr int kInterrupted = 128 + SIGINT;
constexpr int64_t kLongestAlarm = 1'000'000'000;

// All that a handler may touch.
std::atomic<int> received = 0;
std::atomic<bool> is_looping = false;
std::atomic<unsigned> grace = 25;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

/// In a handler neither streams nor memory can be used.
[[noreturn]] void leave(std::string_view text, int code) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(code);
}

void note(int number) {
  const int saved = errno;
  if (received.exchange(number) != 0) {
    if (number == SIGINT)
      leave("\ninterrupted twice: exiting now; the last checkpoint remains\n", kInterrupted);
    errno = saved;
    return;
  }
  if (!is_looping) {
    leave("\nstopped during start-up: nothing is lost; start the same command again\n",
          static_cast<int>(ExitCode::requeue));
  }
  const unsigned span = grace, left = ::alarm(span);
  if (left > 0 && left < span) ::alarm(left);
  errno = saved;
}

void give_up(int /*number*/) {
  const char* text =
      received != 0
          ? "\nthe grace period is over: the last checkpoint remains; start the same command again\n"
      : is_looping
          ? "\nthe time limit is reached: the last checkpoint remains; start the same command again\n"
          : "\nthe time limit was reached during start-up: allow more (run.max_wall_time, or the job's "
            "limit)\n";
  leave(text, static_cast<int>(ExitCode::requeue));
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(number, &action, nullptr);
}

/// As nohup leaves it: the run is to outlive its terminal.
bool is_ignored(int number) {
  struct sigaction action = {};
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

StopSignals::StopSignals() {
  received = 0;
  is_looping = false;
  for (int number : kSignals) {
    if (number != SIGHUP || !is_ignored(SIGHUP)) handle(number, note);
  }
  handle(SIGALRM, give_up);
  for (int number : {SIGPIPE, SIGXFSZ}) handle(number, SIG_IGN);
}

StopSignals::~StopSignals() {
  ::alarm(0);
  handle(SIGALRM, SIG_DFL);
  // The result is decided: a signal that comes now must not turn it into another one.
  for (int number : kSignals) handle(number, SIG_IGN);
}

void StopSignals::set_grace(TimeSpan span) {
  grace = static_cast<unsigned>(std::min(span.seconds, kLongestAlarm));
}

/// The timer is alarm's, and finer: whole seconds would be the better part of a short limit's reserve.
void StopSignals::end_after(double seconds) {
  double whole = 0;
  const double fraction = std::modf(std::min(seconds, static_cast<double>(kLongestAlarm)), &whole);
  itimerval timer = {};
  timer.it_value = {.tv_sec = static_cast<time_t>(whole),
                    .tv_usec = static_cast<suseconds_t>(fraction * 1e6)};
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

void StopSignals::watch_loop() {
  is_looping = true;
}

bool StopSignals::asked() const {
  return received != 0;
}

std::string StopSignals::name() const {
  const int number = received;
  const char* text = number == 0 ? nullptr : ::sigabbrev_np(number);
  return text == nullptr ? "" : std::string("SIG") + text;
}

}  // namespace trainer
