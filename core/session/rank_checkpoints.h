// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/engine/executable.h"
#include "core/run/checkpoints.h"
#include "core/session/membership.h"
#include "core/session/rank_images.h"
#include "core/train/checkpointer.h"

namespace trainer {

/// Rank 0 saves and restores; the others take part: of divided tensors it reads and writes their images.
class RankCheckpoints final : public Checkpointer {
 public:
  /// On rank 0 there is `own`, on the others `image`; the settings are those of all ranks.
  RankCheckpoints(const Membership& membership, Executable& executable, Checkpointer* own, OwnImage* image,
                  const CheckpointSettings& settings)
      : membership_(membership), executable_(executable), own_(own), image_(image), settings_(settings) {}

  bool is_due(int64_t step) const override { return settings_.is_due(step); }
  bool is_overdue() const override { return own_ != nullptr && own_->is_overdue(); }
  bool is_best(const LoopState& state) const override { return settings_.is_best(state); }
  void save(const LoopState& state) override;
  void report() override;
  void save_now(const LoopState& state) override;
  std::optional<LoopState> restore() override;

 private:
  bool is_divided() const;
  void take_images();

  const Membership& membership_;
  Executable& executable_;
  Checkpointer* own_;
  OwnImage* image_;
  CheckpointSettings settings_;
};

}  // namespace trainer
