// SPDX-License-Identifier: Apache-2.0
#include "core/engine/state_image.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace trainer {
namespace {

constexpr size_t kLeastPiece = size_t{64} << 10, kLargestPiece = size_t{1} << 20;  // in bytes
/// Adjacent elements of a blocked layout mostly belong to different rows: reading these together uses
/// whole cache lines.
constexpr size_t kRowsTogether = 16;

/// Calls visit(Unit{}) with the unsigned number of an element's size.
template <class Visit>
void with_element(int64_t bytes, Visit visit) {
  if (bytes == 1) return visit(uint8_t{});
  if (bytes == 2) return visit(uint16_t{});
  if (bytes == 4) return visit(uint32_t{});
  if (bytes == 8) return visit(uint64_t{});
  throw std::logic_error("an element of unknown size");
}

/// Positions of elements: each at the step of its first index plus the step of all others.
struct Rows {
  std::vector<int64_t> first, others;
};

Rows rows_of(const Layout& layout) {
  std::vector<std::vector<int64_t>> steps = dimension_steps(layout);
  Rows rows{std::move(steps[0]), {0}};
  for (size_t d = 1; d < steps.size(); ++d) {
    std::vector<int64_t> longer;
    for (const int64_t before : rows.others) {
      for (const int64_t step : steps[d]) longer.push_back(before + step);
    }
    rows.others = std::move(longer);
  }
  return rows;
}

using Sink = std::function<void(std::span<const std::byte>)>;

template <class Unit>
void read_rows(const Unit* stored, const Rows& rows, const Sink& sink) {
  constexpr size_t kColumns = 64;
  const size_t length = rows.others.size();
  const size_t row_bytes = length * sizeof(Unit);
  const size_t wanted = std::min(std::max(kRowsTogether, kLeastPiece / row_bytes), rows.first.size());
  const size_t together = std::clamp(kLargestPiece / row_bytes, size_t{1}, wanted);
  std::vector<Unit> piece(together * length);
  for (size_t row = 0; row < rows.first.size(); row += together) {
    const size_t count = std::min(together, rows.first.size() - row);
    for (size_t begin = 0; begin < length; begin += kColumns) {
      const size_t end = std::min(begin + kColumns, length);
      for (size_t r = 0; r < count; ++r) {
        const Unit* from = stored + rows.first[row + r];
        Unit* to = piece.data() + r * length;
        for (size_t c = begin; c < end; ++c) to[c] = from[rows.others[c]];
      }
    }
    sink(std::as_bytes(std::span(piece).first(count * length)));
  }
}

}  // namespace

StateImage::StateImage(Executable& executable, Memory memory)
    : executable_(executable), data_(executable.persistent().data()) {
  if (memory == Memory::shared) return;
  memory_ = executable.device().allocate_batch(image_bytes(executable.plan()));
  data_ = memory_->data();
}

void StateImage::take() {
  Device& device = executable_.device();
  if (memory_) device.copy_to_host_async(bytes(), executable_.persistent().data());
  device.synchronize(device.record_event());
}

void StateImage::restore() {
  if (memory_) executable_.device().copy_to_device(executable_.persistent().data(), bytes());
}

std::span<std::byte> StateImage::bytes() const {
  return {data_, executable_.persistent().size()};
}

std::byte* StateImage::at(TensorId id) const {
  const Placement& place = executable_.plan().placements[static_cast<size_t>(id)];
  if (tensor_of(id).part) {
    const std::span<std::byte> whole = executable_.whole(id);
    if (whole.empty()) throw std::logic_error("a tensor in parts that this rank does not gather");
    return whole.data();
  }
  if (place.region == Region::elsewhere) return static_cast<std::byte*>(executable_.address(id));
  if (place.region != Region::persistent) throw std::logic_error("a tensor that does not persist");
  return data_ + place.offset;
}

const Tensor& StateImage::tensor_of(TensorId id) const {
  return executable_.plan().tensors[static_cast<size_t>(id)];
}

void StateImage::read(TensorId id, const Sink& sink) const {
  const Executable::Form form = executable_.form(id);
  const Shape& shape = form.shape;
  const Layout& layout = form.layout;
  const int64_t element = executable_.plan().stored_type(id).bytes;
  const std::byte* stored = at(id);
  if (layout.row_major()) return sink({stored, static_cast<size_t>(numel(shape) * element)});
  with_element(element, [&](auto unit) {
    using Unit = decltype(unit);
    read_rows(reinterpret_cast<const Unit*>(stored), rows_of(layout), sink);
  });
}

void StateImage::write(TensorId id, std::span<const std::byte> bytes) {
  const Executable::Form form = executable_.form(id);
  const Shape& shape = form.shape;
  const Layout& layout = form.layout;
  const int64_t element = executable_.plan().stored_type(id).bytes;
  if (static_cast<int64_t>(bytes.size()) != numel(shape) * element)
    throw std::logic_error("write: wrong number of bytes");
  std::memset(at(id), 0, static_cast<size_t>(stored_elements(layout, shape) * element));
  with_element(element, [&](auto unit) {
    using Unit = decltype(unit);
    auto* to = reinterpret_cast<Unit*>(at(id));
    const std::byte* from = bytes.data();
    for_each_place(layout, shape, [&](int64_t place) {
      std::memcpy(&to[place], from, sizeof(Unit));
      from += sizeof(Unit);
    });
  });
}

}  // namespace trainer
