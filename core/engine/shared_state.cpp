// SPDX-License-Identifier: Apache-2.0
#include "core/engine/shared_state.h"

#include <algorithm>
#include <vector>

namespace trainer {
namespace {

constexpr int64_t kPiece = int64_t{1} << 24;

/// Sends a tensor as it is stored, from one rank to all that have memory for it.
void send(Communicator& ranks, Executable& executable, TensorId id, int64_t from) {
  auto* const place = static_cast<std::byte*>(executable.address(id));
  const int64_t bytes = executable.plan().placements[static_cast<size_t>(id)].bytes;
  Device& device = executable.device();
  std::vector<std::byte> piece;
  for (int64_t done = 0; done < bytes; done += kPiece) {
    piece.resize(static_cast<size_t>(std::min(kPiece, bytes - done)));
    if (ranks.rank() == from) device.copy_to_host(piece, place + done);
    ranks.broadcast(piece, from);
    if (ranks.rank() != from && place != nullptr) device.copy_to_device(place + done, piece);
  }
}

}  // namespace

void share_state(Communicator& ranks, Executable& executable) {
  if (ranks.ranks() == 1) return;
  const std::vector<Tensor>& tensors = executable.plan().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_persistent(tensors[i].role) && tensors[i].rank.value_or(1) != 0)
      send(ranks, executable, static_cast<TensorId>(i), 0);
  }
}

void gather_state(Communicator& ranks, Executable& executable) {
  if (ranks.ranks() == 1) return;
  const std::vector<Tensor>& tensors = executable.plan().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (const auto& rank = tensors[i].rank; rank && *rank != 0)
      send(ranks, executable, static_cast<TensorId>(i), *rank);
  }
}

}  // namespace trainer
