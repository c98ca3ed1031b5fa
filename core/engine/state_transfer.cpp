// SPDX-License-Identifier: Apache-2.0
#include "core/engine/state_transfer.h"

#include <algorithm>
#include <vector>

namespace trainer {
namespace {

constexpr int64_t kPiece = int64_t{1} << 24;

/// Broadcasts a tensor in its layout, from one rank to all that have memory for it.
void send(ProcessGroup& group, Executable& executable, TensorId id, int64_t from) {
  const bool has_memory = executable.address(id) != nullptr;
  const int64_t bytes = executable.plan().placements[static_cast<size_t>(id)].bytes;
  std::vector<std::byte> piece;
  for (int64_t done = 0; done < bytes; done += kPiece) {
    piece.resize(static_cast<size_t>(std::min(kPiece, bytes - done)));
    if (group.rank() == from) executable.copy_out(id, done, piece);
    group.broadcast(piece, from);
    if (group.rank() != from && has_memory) executable.copy_in(id, done, piece);
  }
}

}  // namespace

void broadcast_state(ProcessGroup& group, Executable& executable) {
  if (group.size() == 1) return;
  const std::vector<Tensor>& tensors = executable.plan().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_persistent(tensors[i].role) && tensors[i].rank.value_or(1) != 0)
      send(group, executable, static_cast<TensorId>(i), 0);
  }
}

void gather_state(ProcessGroup& group, Executable& executable) {
  if (group.size() == 1) return;
  const std::vector<Tensor>& tensors = executable.plan().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (const auto& rank = tensors[i].rank; rank && *rank != 0)
      send(group, executable, static_cast<TensorId>(i), *rank);
  }
}

}  // namespace trainer
