// SPDX-License-Identifier: Apache-2.0
#include "core/engine/broadcast_state.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "core/engine/row_order.h"
#include "core/engine/state_image.h"

namespace trainer {
namespace {

constexpr int64_t kBroadcastBytes = int64_t{1} << 24;

/// The value of a tensor on this rank, or of its part.
class Value {
 public:
  Value(Executable& executable, TensorId id)
      : executable_(executable),
        id_(id),
        shape_(executable.plan().tensors[static_cast<size_t>(id)].spec.shape),
        place_(executable.plan().placements[static_cast<size_t>(id)]) {}

  /// In row-major order: other stages may choose other layouts.
  std::vector<std::byte> load() const {
    std::vector<std::byte> stored(static_cast<size_t>(place_.bytes)), rows;
    executable_.copy_out(id_, 0, stored);
    if (place_.layout.row_major()) return stored;
    rows.reserve(bytes());
    read_in_row_order(
        stored.data(), shape_, place_.layout, place_.element_bytes,
        [&](std::span<const std::byte> piece) { rows.insert(rows.end(), piece.begin(), piece.end()); });
    return rows;
  }

  void store(std::span<const std::byte> rows) {
    if (place_.layout.row_major()) return executable_.copy_in(id_, 0, rows);
    std::vector<std::byte> stored(static_cast<size_t>(place_.bytes));
    write_in_row_order(rows, shape_, place_.layout, place_.element_bytes, stored.data());
    executable_.copy_in(id_, 0, stored);
  }

  /// In row-major order.
  size_t bytes() const { return static_cast<size_t>(numel(shape_) * place_.element_bytes); }

 private:
  Executable& executable_;
  TensorId id_;
  const Shape& shape_;
  const Placement& place_;
};

bool is_held(const Executable& executable, TensorId id) {
  return executable.plan().placements[static_cast<size_t>(id)].region == Region::persistent;
}

/// A tensor that every rank holds, as it is stored.
void broadcast_stored(ProcessGroup& group, Executable& executable, TensorId id) {
  const int64_t bytes = executable.plan().placements[static_cast<size_t>(id)].bytes;
  std::vector<std::byte> piece;
  for (int64_t done = 0; done < bytes; done += kBroadcastBytes) {
    piece.resize(static_cast<size_t>(std::min(kBroadcastBytes, bytes - done)));
    if (group.rank() == 0) executable.copy_out(id, done, piece);
    group.broadcast(piece);
    if (group.rank() != 0) executable.copy_in(id, done, piece);
  }
}

/// Whether several ranks hold the same part.
bool has_copies(const Tensor& tensor) {
  const Mesh& mesh = tensor.part->mesh;
  return tensor.part->count() < mesh.ranks_of_stage() || (mesh.stages > 1 && tensor.stages.size() != 1);
}

void broadcast_parts(ProcessGroup& group, Executable& executable, TensorId id) {
  const Tensor& tensor = executable.plan().tensors[static_cast<size_t>(id)];
  Value value(executable, id);
  std::vector<std::byte> bytes(value.bytes());
  for (int64_t index = 0; index < tensor.part->count(); ++index) {
    const int64_t from = first_holder(tensor, index);
    if (group.rank() == from) bytes = value.load();
    for (size_t done = 0; done < bytes.size(); done += kBroadcastBytes)
      group.broadcast(std::span(bytes).subspan(done, std::min<size_t>(kBroadcastBytes, bytes.size() - done)),
                      from);
    if (group.rank() != from && is_held(executable, id) && tensor.part->index(group.rank()) == index)
      value.store(bytes);
  }
}

/// Persistent tensors with copies on several ranks, in an order that does not depend on the rank's stage.
/// Left out are parts that no later step reads, such as sums of gradients, and tables that only some stages
/// hold: each rank has initialized those itself.
std::vector<TensorId> exchanged(const Executable& executable) {
  const std::vector<Tensor>& tensors = executable.plan().tensors;
  std::vector<TensorId> found;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (!is_persistent(tensor.role) || tensor.rank) continue;
    const bool is_common = !tensor.part && tensor.stages.empty();
    const bool is_copied = tensor.part && outlives_step(tensor.role) && has_copies(tensor);
    if (is_common || is_copied) found.push_back(static_cast<TensorId>(i));
  }
  std::ranges::sort(found, {}, [&](TensorId id) { return tensors[static_cast<size_t>(id)].name; });
  return found;
}

}  // namespace

void broadcast_state(ProcessGroup& group, Executable& executable) {
  if (group.size() == 1) return;
  for (const TensorId id : exchanged(executable)) {
    const bool is_in_parts = executable.plan().tensors[static_cast<size_t>(id)].part.has_value();
    is_in_parts ? broadcast_parts(group, executable, id) : broadcast_stored(group, executable, id);
  }
}

}  // namespace trainer
