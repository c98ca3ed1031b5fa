// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "cpu/backend.h"

namespace trainer {
namespace {

constexpr const char* kPolicy = "OMP_WAIT_POLICY";
constexpr const char* kSpins = "GOMP_SPINCOUNT";
// About the time that it takes to wake a sleeping thread. GCC's default is 300,000, several milliseconds:
// beside another busy process a thread then spins until the one that it waits for gets its time slice.
// scripts/bench/neighbours.py measures the costs of both.
constexpr const char* kBriefly = "1000";

}  // namespace

void spin_briefly(char** argv) {
  if (std::getenv(kPolicy) != nullptr || std::getenv(kSpins) != nullptr) return;
  std::error_code unreadable;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  // By its own path, since the link's name would become the process's: ps and pkill would show it as "exe".
  if (!unreadable && ::setenv(kSpins, kBriefly, 0) == 0) ::execv(program.c_str(), argv);
}

std::string waiting_policy() {
  if (const char* spins = std::getenv(kSpins))
    return fmt::format("spin briefly, then sleep ({}={})", kSpins, spins);
  if (const char* policy = std::getenv(kPolicy)) return fmt::format("{}={}", kPolicy, policy);
  return "as OpenMP decides";
}

}  // namespace trainer
