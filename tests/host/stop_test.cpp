// SPDX-License-Identifier: Apache-2.0
#include "core/host/stop.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include "tests/catch.h"

#include "core/base/error.h"

namespace trainer {
namespace {

struct End {
  int code = -1;
  std::string text;
};

/// How a process ends that does this and then continues for as long as it may. `before`: actions of its
/// parent.
End end_of(
    const std::function<void(StopSignals&)>& act, const std::function<void()>& before = [] {}) {
  std::array<int, 2> pipe = {};
  REQUIRE(::pipe(pipe.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(pipe[1], STDERR_FILENO);
    before();
    StopSignals signals;
    act(signals);
    while (true) ::pause();
  }
  ::close(pipe[1]);
  End end;
  std::array<char, 512> part = {};
  for (ssize_t read = 0; (read = ::read(pipe[0], part.data(), part.size())) > 0;)
    end.text.append(part.data(), static_cast<size_t>(read));
  ::close(pipe[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) end.code = WEXITSTATUS(status);
  return end;
}

constexpr int kRequeue = static_cast<int>(ExitCode::requeue);

}  // namespace

TEST_CASE("the time that a run has ends it in its start-up and in its loop") {
  const auto began = std::chrono::steady_clock::now();
  const End early = end_of([](StopSignals& signals) { signals.end_after(1.3); });
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began;
  CHECK(passed.count() >= 1.3);  // not before: the loop's own end may come so late
  CHECK(early.code == kRequeue);
  CHECK(early.text.find("reached during start-up") != std::string::npos);
  const End late = end_of([](StopSignals& signals) {
    signals.end_after(0.05);
    signals.watch_loop();
  });
  CHECK(late.code == kRequeue);
  CHECK(late.text.find("the time limit is reached: the last checkpoint remains") != std::string::npos);
}

TEST_CASE("a signal ends start-up at once, and a loop when the grace period is over") {
  const End early = end_of([](StopSignals&) { ::raise(SIGTERM); });
  CHECK(early.code == kRequeue);
  CHECK(early.text.find("nothing is lost") != std::string::npos);
  const End late = end_of([](StopSignals& signals) {
    signals.end_after(60);  // the grace period is shorter, and counts
    signals.set_grace(TimeSpan{1});
    signals.watch_loop();
    ::raise(SIGUSR1);
  });
  CHECK(late.code == kRequeue);
  CHECK(late.text.find("the grace period is over: the last checkpoint remains") != std::string::npos);
  const End twice = end_of([](StopSignals& signals) {
    signals.watch_loop();
    ::raise(SIGINT);
    ::raise(SIGINT);
  });
  CHECK(twice.code == 130);
}

TEST_CASE("a signal does not change a result that is decided") {
  const End end = end_of([](StopSignals& signals) {
    signals.end_after(0.01);
    signals.ignore();
    ::raise(SIGTERM);
    ::usleep(50'000);
    ::_exit(65);
  });
  CHECK(end.code == 65);
  CHECK(end.text.empty());
}

TEST_CASE("signals that ask for the end are noted in the loop, whatever else they would do") {
  for (const int number : {SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGXCPU, SIGPWR, SIGALRM}) {
    INFO(number);
    const End end = end_of([&](StopSignals& signals) {
      signals.end_after(60);  // an alarm that comes earlier is not its own
      signals.watch_loop();
      ::raise(number);
      const bool is_noted = signals.asked() && signals.name() == std::string("SIG") + ::sigabbrev_np(number);
      ::_exit(is_noted ? 0 : 1);
    });
    CHECK(end.code == 0);
    const auto raise_early = [&](StopSignals&) {
      ::raise(number);
      ::_exit(1);
    };
    CHECK(end_of(raise_early).code == kRequeue);
  }
}

TEST_CASE("a signal is heeded though the parent has blocked it") {
  const auto block = [] {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
  };
  const auto raise_term = [](StopSignals&) {
    ::raise(SIGTERM);
    ::_exit(1);
  };
  CHECK(end_of(raise_term, block).code == kRequeue);
  const auto send_too = [&] {
    block();
    ::raise(SIGUSR1);
  };
  CHECK(end_of([](StopSignals&) { ::_exit(0); }, send_too).code == kRequeue);
}

TEST_CASE("a timer that the parent has set asks for the end as a signal does") {
  const End end = end_of(
      [](StopSignals& signals) {
        signals.end_after(0);  // no limit of its own
        signals.watch_loop();
        while (!signals.asked()) ::pause();
        ::_exit(signals.name() == "SIGALRM" ? 0 : 1);
      },
      [] { ::alarm(1); });
  CHECK(end.code == 0);
}

TEST_CASE("work that cannot be resumed says what remains") {
  const auto end = [](const std::function<void(StopSignals&)>& act) {
    return end_of([&](StopSignals&) {
      StopSignals signals(StopSignals::kPass);
      act(signals);
      ::_exit(1);
    });
  };
  CHECK(end([](StopSignals&) { ::raise(SIGINT); }).text.find("nothing was written") != std::string::npos);
  const End twice = end([](StopSignals& signals) {
    signals.watch_loop();
    ::raise(SIGINT);
    ::raise(SIGINT);
  });
  CHECK(twice.code == 130);
  CHECK(twice.text.find("the output is incomplete") != std::string::npos);
  const End thrown = end([](StopSignals& signals) {
    signals.watch_loop();
    signals.throw_if_asked();
    ::raise(SIGTERM);
    try {
      signals.throw_if_asked();
    } catch (const Error& error) {
      ::_exit(static_cast<int>(error.code()));
    }
  });
  CHECK(thrown.code == kRequeue);
}

}  // namespace trainer
