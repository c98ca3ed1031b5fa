// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/engine/communicator.h"
#include "core/ranks/control.h"

namespace trainer {

/// Ranks whose devices add up a step by themselves, as GPUs do by NCCL: what else they share travels over the
/// control connections.
class ControlCommunicator final : public Communicator {
 public:
  explicit ControlCommunicator(const Identity& identity) : identity_(identity) {}
  /// Before anything else; it outlives this.
  void use(Control& control) { control_ = &control; }

  int64_t rank() const override { return identity_.rank; }
  int64_t ranks() const override { return identity_.ranks; }
  void vote(int64_t round, const Vote& own) override;
  Vote result(int64_t round) override;
  // Not for this engine: the next four throw std::logic_error.
  void start_sum(int64_t sum, std::span<const std::span<float>> numbers) override;
  void finish_sum(int64_t sum) override;
  void start_broadcast(int64_t from, std::span<const std::span<float>> numbers) override;
  void finish_broadcast(int64_t from) override;
  void add_up(std::span<double> numbers) override;
  void broadcast(std::span<std::byte> bytes, int64_t from) override;

 private:
  std::vector<std::string> take(int64_t given);

  Identity identity_;
  Control* control_ = nullptr;
  std::array<int64_t, kMostOpenRounds> votes_{};  ///< the control connections' rounds
};

}  // namespace trainer
