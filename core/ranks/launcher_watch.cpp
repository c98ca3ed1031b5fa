// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/launcher_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "core/ranks/launcher_processes.h"

namespace trainer {
namespace {

using Clock = std::chrono::steady_clock;

/// Whether a process exists and has not ended. A zombie has ended.
bool lives(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.size() > name_end + 2 && text[name_end + 2] != 'Z';
}

}  // namespace

std::variant<int, Late> await_launcher(Children& children, int64_t processes,
                                       const LauncherTimeouts& timeout) {
  // Until all processes have been seen. Some may be short-lived helpers, and none may be on this host.
  constexpr std::chrono::milliseconds kBriefly(50), kLong(1000);
  constexpr std::chrono::seconds kStart(10);
  std::set<pid_t> seen;
  const Clock::time_point start = Clock::now();
  Clock::time_point some = start, all = start;  // when some of the processes, and all, were last seen
  std::chrono::milliseconds most(0);
  while (true) {
    if (const std::optional<ChildEnd> end = children.await_any(most)) return end->status;
    const std::vector<pid_t> found = ranks_of(children.process(0));
    seen.insert(found.begin(), found.end());
    const int64_t living = std::ranges::count_if(found, lives);
    const bool had_all = std::ssize(seen) >= processes;
    if (seen.empty() || living > 0) some = Clock::now();
    if (!had_all || living >= processes) all = Clock::now();
    if (Clock::now() - some > timeout.with_launcher) return Late::launcher;
    if (Clock::now() - all > timeout.with_others) {
      for (const pid_t process : found) ::kill(process, SIGKILL);
      return Late::others;
    }
    most = had_all || (!seen.empty() && Clock::now() - start > kStart) ? kLong : kBriefly;
  }
}

}  // namespace trainer
