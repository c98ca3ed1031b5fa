// SPDX-License-Identifier: Apache-2.0
#include "cpu/waiting.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace trainer {
namespace {

constexpr const char* kPolicy = "OMP_WAIT_POLICY";
constexpr const char* kSpins = "GOMP_SPINCOUNT";
// About as long as it takes to wake a thread that sleeps. GCC's default is 300,000, several milliseconds:
// beside another busy process a thread then spins until the one that it waits for gets its time slice.
// scripts/bench/neighbours.py measures what either costs.
constexpr const char* kBriefly = "1000";

}  // namespace

void spin_briefly(char** argv) {
  if (std::getenv(kPolicy) != nullptr || std::getenv(kSpins) != nullptr) return;
  if (::setenv(kSpins, kBriefly, 0) == 0) ::execv("/proc/self/exe", argv);
}

std::string waiting_policy() {
  if (const char* spins = std::getenv(kSpins))
    return fmt::format("spin briefly, then sleep ({}={})", kSpins, spins);
  if (const char* policy = std::getenv(kPolicy)) return fmt::format("{}={}", kPolicy, policy);
  return "as OpenMP decides";
}

}  // namespace trainer
