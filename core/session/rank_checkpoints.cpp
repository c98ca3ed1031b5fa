// SPDX-License-Identifier: Apache-2.0
#include "core/session/rank_checkpoints.h"

#include <algorithm>
#include <string>

#include "core/engine/broadcast_state.h"
#include "core/engine/group_operations.h"
#include "core/run/run_state.h"

namespace trainer {

/// The same on all ranks.
bool RankCheckpoints::is_divided() const {
  return membership_.has_peers() && std::ranges::any_of(executable_.plan().tensors, [](const Tensor& tensor) {
           return outlives_step(tensor.role) && trainer::is_divided(tensor);
         });
}

/// The other ranks take their images once rank 0 has read the last ones, and before it reads these.
void RankCheckpoints::take_images() {
  if (own_ != nullptr) own_->wait();
  barrier(membership_.group());
  if (image_ != nullptr) image_->take();
  barrier(membership_.group());
}

void RankCheckpoints::save(const LoopState& state) {
  if (is_divided()) take_images();
  if (own_ != nullptr) own_->save(state);
  const bool is_shared =
      Checkpoints::image_memory(executable_.plan(), settings_) == StateImage::Memory::shared;
  if (is_divided() && is_shared) barrier(membership_.group());  // rank 0 has read what training will change
}

void RankCheckpoints::report() {
  if (own_ != nullptr) own_->report();
}

/// Rank 0 may try several times; it reads the same images then.
void RankCheckpoints::save_now(const LoopState& state) {
  if (is_divided()) take_images();
  if (own_ != nullptr) own_->save_now(state);
  if (is_divided()) barrier(membership_.group());
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
