// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/launcher_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "core/base/directory.h"

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

/// The children of a process. Empty if the system does not list them.
std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  std::error_code gone;
  for (const DirectoryEntry& thread : directory_entries(fmt::format("/proc/{}/task", process), gone)) {
    std::ifstream file(thread.path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

/// Whether a process is part of a launcher: Hydra's and Open MPI's start ranks through one more on each host.
bool is_of_launcher(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/comm", process));
  std::string name;
  std::getline(file, name);
  return name.starts_with("hydra_") || name == "orted" || name == "prted" || name == "prterun";
}

/// The processes below a launcher that are no part of it, as far as the system lists them.
std::vector<pid_t> started_by(pid_t launcher) {
  std::vector<pid_t> found;
  for (const pid_t child : children_of(launcher)) {
    if (!is_of_launcher(child)) {
      found.push_back(child);
      continue;
    }
    for (const pid_t rank : started_by(child)) found.push_back(rank);
  }
  return found;
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
    const std::vector<pid_t> found = started_by(children.process(0));
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
