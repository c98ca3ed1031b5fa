// SPDX-License-Identifier: Apache-2.0
#include "core/session/rank_checkpoints.h"

#include <string>

#include "core/engine/group_operations.h"
#include "core/engine/state_transfer.h"
#include "core/run/run_state.h"

namespace trainer {

/// Sends to rank 0 what the others hold alone. An earlier save may still be reading their previous values.
void RankCheckpoints::gather() {
  if (own_ != nullptr) own_->wait();
  gather_state(membership_.group(), executable_);
}

void RankCheckpoints::save(const LoopState& state) {
  gather();
  if (own_ != nullptr) own_->save(state);
}

void RankCheckpoints::report() {
  if (own_ != nullptr) own_->report();
}

void RankCheckpoints::save_now(const LoopState& state) {
  gather();
  if (own_ != nullptr) own_->save_now(state);
}

std::optional<LoopState> RankCheckpoints::restore() {
  if (!membership_.has_peers()) return own_->restore();
  std::optional<LoopState> there;
  const std::string text = broadcast_from_rank_0(membership_.group(), [&] {
    there = own_->restore();
    return there ? to_json(RunState{.loop = *there}) : "";
  });
  if (text.empty()) return std::nullopt;
  broadcast_state(membership_.group(), executable_);
  return parse_run_state(text, "what rank 0 has restored").loop;
}

}  // namespace trainer
