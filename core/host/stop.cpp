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
#include <initializer_list>
#include <string_view>

#include "core/base/error.h"
#include "core/host/exit_report.h"

namespace trainer {
namespace {

constexpr std::array<int, 7> kSignals = {SIGTERM, SIGUSR1, SIGUSR2, SIGINT, SIGHUP, SIGXCPU, SIGPWR};
constexpr int kInterrupted = 128 + SIGINT;
constexpr int64_t kLongestAlarm = 1'000'000'000;

// Everything that a handler may touch.
std::atomic<int> received = 0;
std::atomic<bool> is_looping = false;
std::atomic<bool> is_timed = false;  ///< the alarm is our own
std::atomic<unsigned> grace = 25;
std::atomic<const StopSignals::Texts*> wording = &StopSignals::kRun;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free &&
              std::atomic<const StopSignals::Texts*>::is_always_lock_free);

/// In a handler neither streams nor memory can be used.
[[noreturn]] void leave(int code, std::initializer_list<std::string_view> parts) {
  for (std::string_view part : parts) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, part.data(), part.size());
  }
  report_exit_code(code);
  ::_exit(code);
}

constexpr int kRequeue = static_cast<int>(ExitCode::requeue);
constexpr std::string_view kAgain = "; start the same command again\n";

void note(int number) {
  const int saved = errno;
  const StopSignals::Texts& say = *wording;
  if (received.exchange(number) != 0) {
    if (number == SIGINT) leave(kInterrupted, {"\ninterrupted twice: exiting now; ", say.kept, "\n"});
    errno = saved;
    return;
  }
  if (!is_looping) leave(kRequeue, {"\n", say.early, kAgain});
  is_timed = true;
  const unsigned span = grace, left = ::alarm(span);
  if (left > 0 && left < span) ::alarm(left);
  errno = saved;
}

[[noreturn]] void give_up() {
  const StopSignals::Texts& say = *wording;
  if (received != 0) leave(kRequeue, {"\nthe grace period is over: ", say.kept, kAgain});
  if (is_looping) leave(kRequeue, {"\nthe time limit is reached: ", say.kept, kAgain});
  leave(
      kRequeue,
      {"\nthe time limit was reached during start-up: allow more (run.max_wall_time, or the job's limit)\n"});
}

/// An alarm that no timer of ours has sent requests the end as other signals do: another process sent it, or
/// the parent set a timer and then became this program.
void note_alarm(int number, siginfo_t* info, void* /*context*/) {
  if (is_timed && info->si_code == SI_KERNEL) give_up();
  note(number);
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(number, &action, nullptr);
}

void handle_alarm() {
  struct sigaction action = {};
  action.sa_sigaction = note_alarm;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGALRM, &action, nullptr);
}

/// As nohup leaves it: the run should outlive its terminal.
bool is_ignored(int number) {
  struct sigaction action = {};
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// Signals that the parent has blocked stay blocked in its children. Pending ones are handled now.
void unblock() {
  sigset_t ours;
  ::sigemptyset(&ours);
  for (int number : kSignals) ::sigaddset(&ours, number);
  ::sigaddset(&ours, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &ours, nullptr);
}

}  // namespace

StopSignals::StopSignals(const Texts& texts) {
  received = 0;
  is_looping = false;
  is_timed = false;
  wording = &texts;
  for (int number : kSignals) {
    if (number != SIGHUP || !is_ignored(SIGHUP)) handle(number, note);
  }
  handle_alarm();
  handle(SIGPIPE, SIG_IGN);
  unblock();
}

StopSignals::~StopSignals() {
  ignore();
}

void StopSignals::ignore() {
  ::alarm(0);
  handle(SIGALRM, SIG_IGN);
  for (int number : kSignals) handle(number, SIG_IGN);
}

void StopSignals::set_grace(TimeSpan span) {
  grace = static_cast<unsigned>(std::min(span.seconds, kLongestAlarm));
}

/// The timer is alarm's with a finer resolution: whole seconds would use up most of a short limit's reserve.
void StopSignals::end_after(double seconds) {
  if (seconds <= 0) return;
  is_timed = true;
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

void StopSignals::throw_if_asked() const {
  if (asked())
    throw Error(ExitCode::requeue, name() + ": stopped before the end; start the same command again");
}

}  // namespace trainer
