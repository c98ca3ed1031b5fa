// SPDX-License-Identifier: Apache-2.0
#include "core/session/rank_checkpoints.h"

#include <string>

#include "core/engine/broadcast_state.h"
#include "core/engine/group_operations.h"
#include "core/run/run_state.h"

namespace trainer {

bool RankCheckpoints::is_divided() const {
  return membership_.has_peers() && StateImage::is_divided(executable_.plan());
}

/// The other ranks take their images once rank 0 has read the last ones, and before it reads these.
void RankCheckpoints::take_images() {
  run_on_all(membership_.group(), [&] {
    if (own_ != nullptr) own_->wait();
  });
  run_on_all(membership_.group(), [&] {
    if (image_ != nullptr) image_->take();
  });
}

void RankCheckpoints::save(const LoopState& state) {
  const auto save_own = [&] {
    if (own_ != nullptr) own_->save(state);
  };
  if (!is_divided()) return save_own();
  take_images();
  if (Checkpoints::image_memory(executable_.plan(), settings_) == StateImage::Memory::own) return save_own();
  run_on_all(membership_.group(), save_own);  // rank 0 reads what training will change
}

void RankCheckpoints::report() {
  if (own_ != nullptr) own_->report();
}

/// Rank 0 may try several times; it reads the same images then.
void RankCheckpoints::save_now(const LoopState& state) {
  const auto save_own = [&] {
    if (own_ != nullptr) own_->save_now(state);
  };
  if (!is_divided()) return save_own();
  take_images();
  run_on_all(membership_.group(), save_own);
}

std::optional<LoopState> RankCheckpoints::restore() {
  if (!membership_.has_peers()) return own_->restore();
  if (is_divided()) take_images();
  std::optional<LoopState> there;
  const std::string text = broadcast_from_rank_0(membership_.group(), [&] {
    there = own_->restore();
    return there ? to_json(RunState{.loop = *there}) : "";
  });
  if (text.empty()) return std::nullopt;
  if (image_ != nullptr) image_->restore();
  broadcast_state(membership_.group(), executable_);
  return parse_run_state(text, "what rank 0 has restored").loop;
}

}  // namespace trainer
