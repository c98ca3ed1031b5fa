// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/engine/executable.h"
#include "core/run/checkpoints.h"
#include "core/session/membership.h"
#include "core/train/checkpointer.h"

namespace trainer {

/// Rank 0 saves and restores; the others take part.
class RankCheckpoints final : public Checkpointer {
 public:
  /// `own` is null on other ranks than 0; the settings are those of all ranks.
  RankCheckpoints(const Membership& membership, Executable& executable, Checkpointer* own,
                  const CheckpointSettings& settings)
      : membership_(membership), executable_(executable), own_(own), settings_(settings) {}

  bool is_due(int64_t step) const override { return settings_.is_due(step); }
  bool is_overdue() const override { return own_ != nullptr && own_->is_overdue(); }
  bool is_best(const LoopState& state) const override { return settings_.is_best(state); }
  void save(const LoopState& state) override;
  void report() override;
  void save_now(const LoopState& state) override;
  std::optional<LoopState> restore() override;

 private:
  void gather();

  const Membership& membership_;
  Executable& executable_;
  Checkpointer* own_;
  CheckpointSettings settings_;
};

}  // namespace trainer
