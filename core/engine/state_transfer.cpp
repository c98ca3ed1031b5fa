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

/// A tensor that is cut, on this rank: its own part, and of others the bytes that travel.
class PartTransfer {
 public:
  PartTransfer(ProcessGroup& group, Executable& executable, TensorId id)
      : group_(group),
        executable_(executable),
        id_(id),
        tensor_(executable.plan().tensors[static_cast<size_t>(id)]),
        place_(executable.plan().placements[static_cast<size_t>(id)]),
        bytes_(static_cast<size_t>(numel(tensor_.spec.shape) * place_.element_bytes)) {}

  /// Gives each rank its part of what rank 0 holds as a whole.
  void send() {
    for (int64_t index = 0; index < part().count(); ++index) {
      if (group_.rank() == 0) take_from_whole(index);
      if (index != 0 || group_.size() > part().count()) broadcast(0);
      if (part().index(group_.rank()) == index) store();
    }
  }

  /// Gives rank 0 the whole.
  void gather() {
    for (int64_t index = 0; index < part().count(); ++index) {
      const int64_t from = part().holder(index);
      if (group_.rank() == from) load();
      if (from != 0) broadcast(from);
      if (group_.rank() == 0) put_into_whole(index);
    }
  }

 private:
  const Part& part() const { return *tensor_.part; }

  void broadcast(int64_t from) {
    const std::span<std::byte> all(bytes_);
    for (size_t done = 0; done < all.size(); done += kPiece)
      group_.broadcast(all.subspan(done, std::min<size_t>(kPiece, all.size() - done)), from);
  }

  void take_from_whole(int64_t index) {
    std::ranges::fill(bytes_, std::byte{0});
    const std::span<const std::byte> whole = executable_.whole(id_);
    for (const ElementRun& run : part().runs(index))
      std::copy_n(whole.data() + run.in_whole * place_.element_bytes, run.count * place_.element_bytes,
                  bytes_.data() + run.in_part * place_.element_bytes);
  }

  void put_into_whole(int64_t index) {
    const std::span<std::byte> whole = executable_.whole(id_);
    for (const ElementRun& run : part().runs(index))
      std::copy_n(bytes_.data() + run.in_part * place_.element_bytes, run.count * place_.element_bytes,
                  whole.data() + run.in_whole * place_.element_bytes);
  }

  /// Calls move(stored element, element in row-major order) for each of this rank's part.
  template <class Move>
  void visit_elements(std::vector<std::byte>& stored, const Move& move) {
    const auto element = static_cast<size_t>(place_.element_bytes);
    std::byte* next = bytes_.data();
    for_each_place(place_.layout, tensor_.spec.shape, [&](int64_t at) {
      move(stored.data() + static_cast<size_t>(at) * element, next, element);
      next += element;
    });
  }

  /// This rank's part, in row-major order.
  void load() {
    if (place_.layout.row_major()) return executable_.copy_out(id_, 0, bytes_);
    std::vector<std::byte> stored(static_cast<size_t>(place_.bytes));
    executable_.copy_out(id_, 0, stored);
    visit_elements(stored, [](const std::byte* at, std::byte* to, size_t n) { std::copy_n(at, n, to); });
  }

  void store() {
    if (place_.layout.row_major()) return executable_.copy_in(id_, 0, bytes_);
    std::vector<std::byte> stored(static_cast<size_t>(place_.bytes), std::byte{0});
    visit_elements(stored, [](std::byte* at, const std::byte* from, size_t n) { std::copy_n(from, n, at); });
    executable_.copy_in(id_, 0, stored);
  }

  ProcessGroup& group_;
  Executable& executable_;
  TensorId id_;
  const Tensor& tensor_;
  const Placement& place_;
  std::vector<std::byte> bytes_;  ///< of one part, in row-major order
};

bool is_saved_in_parts(const Executable& executable, size_t i) {
  return executable.plan().placements[i].whole_offset >= 0;
}

}  // namespace

void broadcast_state(ProcessGroup& group, Executable& executable) {
  if (group.size() == 1) return;
  const std::vector<Tensor>& tensors = executable.plan().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_saved_in_parts(executable, i)) {
      PartTransfer(group, executable, static_cast<TensorId>(i)).send();
    } else if (is_persistent(tensors[i].role) && tensors[i].rank.value_or(1) != 0)
      send(group, executable, static_cast<TensorId>(i), 0);
  }
}

void gather_state(ProcessGroup& group, Executable& executable) {
  if (group.size() == 1) return;
  const std::vector<Tensor>& tensors = executable.plan().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_saved_in_parts(executable, i)) PartTransfer(group, executable, static_cast<TensorId>(i)).gather();
    if (const auto& rank = tensors[i].rank; rank && *rank != 0)
      send(group, executable, static_cast<TensorId>(i), *rank);
  }
}

}  // namespace trainer
