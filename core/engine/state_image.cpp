// SPDX-License-Identifier: Apache-2.0
#include "core/engine/state_image.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace trainer {
namespace {

constexpr size_t kPieceBytes = size_t{64} << 10;

/// Calls visit(Unit{}) with the unsigned number of an element's size.
template <class Visit>
void with_element(int64_t bytes, Visit visit) {
  if (bytes == 1) return visit(uint8_t{});
  if (bytes == 2) return visit(uint16_t{});
  if (bytes == 4) return visit(uint32_t{});
  if (bytes == 8) return visit(uint64_t{});
  throw std::logic_error("an element of unknown size");
}

}  // namespace

StateImage::StateImage(Executable& executable, Memory memory)
    : executable_(executable), data_(executable.persistent().data()) {
  if (memory == Memory::shared) return;
  memory_ = executable.backend().allocate_batch(image_bytes(executable.plan()));
  data_ = memory_->data();
}

void StateImage::take() {
  Backend& backend = executable_.backend();
  if (!memory_) return backend.wait(backend.point());
  backend.fetch(data_, executable_.persistent().data(), memory_->bytes());
  backend.wait(backend.point());
}

void StateImage::restore() {
  if (memory_) executable_.backend().store(executable_.persistent().data(), data_, memory_->bytes());
}

std::byte* StateImage::at(TensorId id) const {
  const Placement& place = executable_.plan().placements[static_cast<size_t>(id)];
  if (place.region != Region::persistent) throw std::logic_error("a tensor that does not persist");
  return data_ + place.offset;
}

void StateImage::read(TensorId id, const std::function<void(std::span<const std::byte>)>& sink) const {
  const Tensor& tensor = executable_.plan().tensors[static_cast<size_t>(id)];
  const Layout& layout = executable_.plan().placements[static_cast<size_t>(id)].layout;
  const int64_t element = executable_.backend().element_bytes(tensor.spec.dtype);
  const std::byte* stored = at(id);
  if (layout.row_major()) return sink({stored, static_cast<size_t>(numel(tensor.spec.shape) * element)});
  with_element(element, [&](auto unit) {
    using Unit = decltype(unit);
    const auto* from = reinterpret_cast<const Unit*>(stored);
    std::vector<Unit> piece(kPieceBytes / sizeof(Unit));
    size_t filled = 0;
    for_each_place(layout, tensor.spec.shape, [&](int64_t place) {
      piece[filled++] = from[place];
      if (filled < piece.size()) return;
      sink(std::as_bytes(std::span(piece)));
      filled = 0;
    });
    if (filled > 0) sink(std::as_bytes(std::span(piece).first(filled)));
  });
}

void StateImage::write(TensorId id, std::span<const std::byte> bytes) {
  const Tensor& tensor = executable_.plan().tensors[static_cast<size_t>(id)];
  const Layout& layout = executable_.plan().placements[static_cast<size_t>(id)].layout;
  const int64_t element = executable_.backend().element_bytes(tensor.spec.dtype);
  if (static_cast<int64_t>(bytes.size()) != numel(tensor.spec.shape) * element)
    throw std::logic_error("write: wrong number of bytes");
  std::memset(at(id), 0, static_cast<size_t>(stored_elements(layout, tensor.spec.shape) * element));
  with_element(element, [&](auto unit) {
    using Unit = decltype(unit);
    auto* to = reinterpret_cast<Unit*>(at(id));
    const std::byte* from = bytes.data();
    for_each_place(layout, tensor.spec.shape, [&](int64_t place) {
      std::memcpy(&to[place], from, sizeof(Unit));
      from += sizeof(Unit);
    });
  });
}

}  // namespace trainer
