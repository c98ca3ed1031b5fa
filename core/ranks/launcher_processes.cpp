// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/launcher_processes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <system_error>

#include "core/base/directory.h"

namespace trainer {

namespace fs = std::filesystem;

fs::path program_of(pid_t process) {
  std::error_code unreadable;
  return fs::read_symlink(fmt::format("/proc/{}/exe", process), unreadable);
}

pid_t parent_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/status", process));
  for (std::string word; file >> word;) {
    pid_t parent = 0;
    if (word == "PPid:" && file >> parent) return parent;
  }
  return 0;
}

std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  std::error_code gone;
  for (const DirectoryEntry& thread : directory_entries(fmt::format("/proc/{}/task", process), gone)) {
    std::ifstream file(thread.path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

bool is_of_launcher(pid_t process) {
  constexpr std::array kPrograms = {
      "mpirun",  "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy", "hydra_bstrap_proxy", "orterun", "orted",
      "prterun", "prte",    "prted"};
  return std::ranges::find(kPrograms, program_of(process).filename().string()) != kPrograms.end();
}

std::vector<pid_t> ranks_of(pid_t launcher) {
  std::vector<pid_t> ranks;
  for (const pid_t child : children_of(launcher)) {
    if (!is_of_launcher(child)) {
      ranks.push_back(child);
      continue;
    }
    for (const pid_t rank : ranks_of(child)) ranks.push_back(rank);
  }
  return ranks;
}

fs::path launcher_above() {
  constexpr int kMostAncestors = 16;
  pid_t process = ::getppid();
  for (int i = 0; i < kMostAncestors && process > 1; ++i, process = parent_of(process)) {
    if (is_of_launcher(process)) return program_of(process);
  }
  return {};
}

}  // namespace trainer
