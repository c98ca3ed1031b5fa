// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csignal>
#include <cstddef>

namespace trainer {

/// Keeps the handlers of signals that ask the program to stop while a library is loaded or started: they are
/// what they were before, at its end.
class KeptHandlers {
 public:
  KeptHandlers() {
    for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], nullptr, &handlers_[i]);
  }
  ~KeptHandlers() {
    for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &handlers_[i], nullptr);
  }
  KeptHandlers(const KeptHandlers&) = delete;
  KeptHandlers& operator=(const KeptHandlers&) = delete;

 private:
  static constexpr std::array kSignals = {SIGHUP,  SIGINT,  SIGUSR1, SIGUSR2,
                                          SIGALRM, SIGTERM, SIGXCPU, SIGPWR};
  std::array<struct sigaction, kSignals.size()> handlers_{};
};

}  // namespace trainer
