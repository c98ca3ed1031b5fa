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
      if (is_here() && part().index(group_.rank()) == index) store();
    }
  }

  /// Gives rank 0 the whole.
  void gather() {
    for (int64_t index = 0; index < part().count(); ++index) {
      const int64_t from = first_holder() + part().holder(index);
      if (group_.rank() == from) load();
      if (from != 0) broadcast(from);
      if (group_.rank() == 0) put_into_whole(index);
    }
  }

 private:
  const Part& part() const { return *tensor_.part; }

  /// Whether this rank's stage holds it.
  bool is_here() const { return place_.region == Region::persistent; }
  /// The first rank of the first stage that holds it.
  int64_t first_holder() const {
    return tensor_.stages.empty() ? 0 : std::ranges::min(tensor_.stages) * group_.mesh().ranks_of_stage();
  }

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

/// Whether only some stages hold it and no checkpoint has it, such as a table of constants.
bool is_stage_own(const Executable& executable, size_t i) {
  return !executable.plan().tensors[i].stages.empty() && !is_saved_in_parts(executable, i);
}

/// Gives what only this stage has its first value, which does not depend on the seed.
void initialize_own(Executable& executable) {
  for (size_t i = 0; i < executable.plan().tensors.size(); ++i) {
    if (is_stage_own(executable, i) && executable.plan().placements[i].region == Region::persistent)
      initialize(executable, static_cast<TensorId>(i), 0);
  }
}

/// The persistent tensors that ranks exchange, in an order that does not depend on the rank's stage.
std::vector<size_t> exchanged(const Executable& executable) {
  const std::vector<Tensor>& tensors = executable.plan().tensors;
  std::vector<size_t> found;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_persistent(tensors[i].role) && !is_stage_own(executable, i)) found.push_back(i);
  }
  std::ranges::sort(found, {}, [&](size_t i) { return tensors[i].name; });
  return found;
}

}  // namespace

void broadcast_state(ProcessGroup& group, Executable& executable) {
  if (group.size() == 1) return;
  initialize_own(executable);
  const std::vector<Tensor>& tensors = executable.plan().tensors;
  for (const size_t i : exchanged(executable)) {
    if (is_saved_in_parts(executable, i)) {
      PartTransfer(group, executable, static_cast<TensorId>(i)).send();
    } else if (tensors[i].rank.value_or(1) != 0)
      send(group, executable, static_cast<TensorId>(i), 0);
  }
}

void gather_state(ProcessGroup& group, Executable& executable) {
  if (group.size() == 1) return;
  const std::vector<Tensor>& tensors = executable.plan().tensors;
  for (const size_t i : exchanged(executable)) {
    if (is_saved_in_parts(executable, i)) PartTransfer(group, executable, static_cast<TensorId>(i)).gather();
    if (const auto& rank = tensors[i].rank; rank && *rank != 0)
      send(group, executable, static_cast<TensorId>(i), *rank);
  }
}

}  // namespace trainer
