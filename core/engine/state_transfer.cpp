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

/// Calls move(part's index, offset within it, offset within the whole, length in bytes) for all pieces of a
/// tensor in parts, of the first part last.
template <class Move>
void visit_parts(const Executable& executable, TensorId id, const Move& move) {
  const int64_t ranks = executable.plan().tensors[static_cast<size_t>(id)].part->ranks;
  const int64_t bytes = executable.plan().placements[static_cast<size_t>(id)].bytes;
  for (int64_t rank = ranks - 1; rank >= 0; --rank) {
    for (int64_t done = 0; done < bytes; done += kPiece)
      move(rank, done, rank * bytes + done, std::min(kPiece, bytes - done));
  }
}

/// Gives each rank its part of what rank 0 holds as a whole, in each copy.
void send_parts(ProcessGroup& group, Executable& executable, TensorId id) {
  const Part& part = *executable.plan().tensors[static_cast<size_t>(id)].part;
  std::vector<std::byte> piece;
  visit_parts(executable, id, [&](int64_t index, int64_t offset, int64_t at, int64_t length) {
    piece.resize(static_cast<size_t>(length));
    if (group.rank() == 0) std::copy_n(executable.whole(id).begin() + at, length, piece.begin());
    if (index != 0 || group.size() > part.ranks) group.broadcast(piece, 0);
    if (part.index(group.rank()) == index) executable.copy_in(id, offset, piece);
  });
}

/// Gives rank 0 the whole.
void gather_parts(ProcessGroup& group, Executable& executable, TensorId id) {
  std::vector<std::byte> piece;
  visit_parts(executable, id, [&](int64_t rank, int64_t offset, int64_t at, int64_t length) {
    piece.resize(static_cast<size_t>(length));
    if (group.rank() == rank) executable.copy_out(id, offset, piece);
    if (rank != 0) group.broadcast(piece, rank);
    if (group.rank() == 0) std::ranges::copy(piece, executable.whole(id).begin() + at);
  });
}

bool is_saved_in_parts(const Executable& executable, size_t i) {
  return executable.plan().placements[i].whole_offset >= 0;
}

}  // namespace

void broadcast_state(ProcessGroup& group, Executable& executable) {
  if (group.size() == 1) return;
  const std::vector<Tensor>& tensors = executable.plan().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_saved_in_parts(executable, i)) {
      send_parts(group, executable, static_cast<TensorId>(i));
    } else if (is_persistent(tensors[i].role) && tensors[i].rank.value_or(1) != 0)
      send(group, executable, static_cast<TensorId>(i), 0);
  }
}

void gather_state(ProcessGroup& group, Executable& executable) {
  if (group.size() == 1) return;
  const std::vector<Tensor>& tensors = executable.plan().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_saved_in_parts(executable, i)) gather_parts(group, executable, static_cast<TensorId>(i));
    if (const auto& rank = tensors[i].rank; rank && *rank != 0)
      send(group, executable, static_cast<TensorId>(i), *rank);
  }
}

}  // namespace trainer
