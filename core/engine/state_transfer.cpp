// SPDX-License-Identifier: Apache-2.0
#include "core/engine/state_transfer.h"

#include <algorithm>
#include <vector>

namespace trainer {
namespace {

constexpr int64_t kPiece = int64_t{1} << 24;

/// Broadcasts a tensor in its layout, from one rank to all that have memory for it.
void send(ProcessGroup& group, Executable& executable, TensorId id, int64_t from) {
  auto* const place = static_cast<std::byte*>(executable.address(id));
  const int64_t bytes = executable.plan().placements[static_cast<size_t>(id)].bytes;
  Device& device = executable.device();
  std::vector<std::byte> piece;
  for (int64_t done = 0; done < bytes; done += kPiece) {
    piece.resize(static_cast<size_t>(std::min(kPiece, bytes - done)));
    if (group.rank() == from) device.copy_to_host(piece, place + done);
    group.broadcast(piece, from);
    if (group.rank() != from && place != nullptr) device.copy_to_device(place + done, piece);
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
