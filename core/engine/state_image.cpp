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

constexpr int64_t kPiece = int64_t{1} << 20;
/// Copies of a piece on its way: in frames, on the connection, as text, and for the reader.
constexpr int64_t kPiecesAtOnce = 8;

/// What one rank holds of a tensor that ranks divide.
struct Share {
  int64_t rank;
  int64_t elements;
  std::vector<ElementRun> runs;
};

/// In the order of the parts; empty if every rank holds all of it.
std::vector<Share> shares_of(const Tensor& tensor) {
  if (tensor.rank) {
    const int64_t all = numel(tensor.spec.shape);
    return {{.rank = *tensor.rank, .elements = all, .runs = {{0, 0, all}}}};
  }
  if (!tensor.part) return {};
  std::vector<Share> shares;
  for (int64_t index = 0; index < tensor.part->count(); ++index)
    shares.push_back({.rank = first_holder(tensor, index),
                      .elements = numel(tensor.part->shape()),
                      .runs = tensor.part->runs(index)});
  return shares;
}

/// Bytes of the largest tensor that ranks divide.
int64_t largest_divided(const Plan& plan) {
  int64_t largest = 0;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const Tensor& tensor = plan.tensors[i];
    if (outlives_step(tensor.role) && is_divided(tensor))
      largest = std::max(largest, numel(whole_shape(tensor)) * plan.placements[i].element_bytes);
  }
  return largest;
}

/// Calls copy(byte in the piece, byte in the whole, bytes) for what bytes [begin, end) of a part have of the
/// whole.
template <class Copy>
void visit_runs(const Share& share, int64_t element, int64_t begin, int64_t end, const Copy& copy) {
  const auto first = std::ranges::partition_point(
      share.runs, [&](const ElementRun& run) { return (run.in_part + run.count) * element <= begin; });
  for (auto run = first; run != share.runs.end() && run->in_part * element < end; ++run) {
    const int64_t in_part = run->in_part * element;
    const int64_t from = std::max(begin, in_part), to = std::min(end, in_part + run->count * element);
    copy(from - begin, run->in_whole * element + from - in_part, to - from);
  }
}

/// Calls exchange(begin, piece) for consecutive pieces of a share's bytes.
template <class Exchange>
void visit_pieces(const Share& share, int64_t element, std::vector<std::byte>& piece,
                  const Exchange& exchange) {
  for (int64_t begin = 0, all = share.elements * element; begin < all; begin += kPiece) {
    piece.resize(static_cast<size_t>(std::min(kPiece, all - begin)));
    exchange(begin, begin + static_cast<int64_t>(piece.size()));
  }
}

}  // namespace

int64_t first_holder(const Tensor& tensor, int64_t index) {
  if (tensor.rank) return *tensor.rank;
  const Part& part = tensor.part.value();
  const int64_t stage = tensor.stages.empty() ? 0 : std::ranges::min(tensor.stages);
  return stage * part.mesh.ranks_of_stage() + part.holder(index);
}

StateImage::StateImage(Executable& executable, Memory memory, OtherImages* others)
    : executable_(executable), others_(others), data_(executable.persistent().data()) {
  if (others_ != nullptr) whole_.resize(static_cast<size_t>(largest_divided(executable.plan())));
  if (memory == Memory::shared) return;
  memory_ = executable.device().allocate_batch(image_bytes(executable.plan()));
  data_ = memory_->data();
}

int64_t StateImage::whole_bytes(const Plan& plan) {
  const int64_t largest = largest_divided(plan);
  return largest == 0 ? 0 : largest + kPiecesAtOnce * kPiece;
}

bool StateImage::is_read_by_rank_0(const Plan& plan, int64_t rank) {
  return std::ranges::any_of(plan.tensors, [&](const Tensor& tensor) {
    return outlives_step(tensor.role) && std::ranges::count(shares_of(tensor), rank, &Share::rank) > 0;
  });
}

void StateImage::take() {
  Device& device = executable_.device();
  if (memory_) device.copy_to_host_async(bytes(), executable_.persistent().data());
  device.synchronize(device.record_event());
  converted_ = {};
}

void StateImage::restore() {
  if (memory_) executable_.device().copy_to_device(executable_.persistent().data(), bytes());
}

std::span<std::byte> StateImage::bytes() const {
  return {data_, executable_.persistent().size()};
}

std::byte* StateImage::at(TensorId id) const {
  const Placement& place = executable_.plan().placements[static_cast<size_t>(id)];
  if (place.region != Region::persistent) throw std::logic_error("a tensor that this rank does not hold");
  return data_ + place.offset;
}

const Tensor& StateImage::tensor_of(TensorId id) const {
  return executable_.plan().tensors[static_cast<size_t>(id)];
}

int64_t StateImage::element_bytes(TensorId id) const {
  return executable_.plan().stored_type(id).bytes;
}

void StateImage::read(TensorId id, const Sink& sink) {
  const Tensor& tensor = tensor_of(id);
  const std::vector<Share> shares = shares_of(tensor);
  if (shares.empty()) return read_stored(id, sink);
  const int64_t element = element_bytes(id);
  const auto bytes_of_whole = static_cast<size_t>(numel(whole_shape(tensor)) * element);
  if (whole_.size() < bytes_of_whole) whole_.resize(bytes_of_whole);
  const std::span<std::byte> whole = std::span(whole_).first(bytes_of_whole);
  std::ranges::fill(whole, std::byte{0});
  std::vector<std::byte> piece;
  for (const Share& share : shares) {
    visit_pieces(share, element, piece, [&](int64_t begin, int64_t end) {
      read_piece(share.rank, id, begin, piece);
      visit_runs(share, element, begin, end, [&](int64_t from, int64_t to, int64_t count) {
        std::copy_n(piece.begin() + from, count, whole.begin() + to);
      });
    });
  }
  sink(whole);
}

void StateImage::write(TensorId id, std::span<const std::byte> bytes) {
  const Tensor& tensor = tensor_of(id);
  const std::vector<Share> shares = shares_of(tensor);
  if (shares.empty()) return write_stored(id, bytes);
  const int64_t element = element_bytes(id);
  if (static_cast<int64_t>(bytes.size()) != numel(whole_shape(tensor)) * element)
    throw std::logic_error("write: wrong number of bytes");
  std::vector<std::byte> piece;
  for (const Share& share : shares) {
    visit_pieces(share, element, piece, [&](int64_t begin, int64_t end) {
      std::ranges::fill(piece, std::byte{0});
      visit_runs(share, element, begin, end, [&](int64_t to, int64_t from, int64_t count) {
        std::copy_n(bytes.begin() + from, count, piece.begin() + to);
      });
      write_piece(share.rank, id, begin, piece);
    });
  }
}

void StateImage::read_piece(int64_t rank, TensorId id, int64_t begin, std::span<std::byte> piece) {
  const std::string& name = tensor_of(id).name;
  if (rank == executable_.plan().rank) return read_own(name, begin, piece);
  if (others_ == nullptr) throw std::logic_error("a tensor that another rank holds");
  others_->read(rank, name, begin, piece);
}

void StateImage::write_piece(int64_t rank, TensorId id, int64_t begin, std::span<const std::byte> piece) {
  const std::string& name = tensor_of(id).name;
  if (rank == executable_.plan().rank) return write_own(name, begin, piece);
  if (others_ == nullptr) throw std::logic_error("a tensor that another rank holds");
  others_->write(rank, name, begin, piece);
}

TensorId StateImage::held(const std::string& tensor, int64_t begin, size_t count) const {
  const TensorId id = executable_.tensor(tensor);
  if (id == kNone) throw std::logic_error("a tensor that this rank does not have: " + tensor);
  const int64_t all = numel(tensor_of(id).spec.shape) * element_bytes(id);
  if (begin < 0 || begin > all || static_cast<int64_t>(count) > all - begin)
    throw std::logic_error("bytes that a tensor does not have: " + tensor);
  return id;
}

/// What this rank holds of it, in row-major order: the image's own memory, or a conversion of it.
std::span<std::byte> StateImage::own(TensorId id) {
  const auto size = static_cast<size_t>(numel(tensor_of(id).spec.shape) * element_bytes(id));
  if (executable_.plan().placements[static_cast<size_t>(id)].layout.row_major()) return {at(id), size};
  if (converted_.id != id) {
    converted_ = {.id = id, .bytes = {}};
    converted_.bytes.reserve(size);
    read_stored(id, [&](std::span<const std::byte> rows) {
      converted_.bytes.insert(converted_.bytes.end(), rows.begin(), rows.end());
    });
  }
  return converted_.bytes;
}

void StateImage::read_own(const std::string& tensor, int64_t begin, std::span<std::byte> bytes) {
  const TensorId id = held(tensor, begin, bytes.size());
  std::copy_n(own(id).begin() + begin, bytes.size(), bytes.begin());
}

void StateImage::write_own(const std::string& tensor, int64_t begin, std::span<const std::byte> bytes) {
  const TensorId id = held(tensor, begin, bytes.size());
  const std::span<std::byte> all = own(id);
  std::ranges::copy(bytes, all.begin() + begin);
  const bool is_last = begin + static_cast<int64_t>(bytes.size()) == static_cast<int64_t>(all.size());
  if (is_last && converted_.id == id) write_stored(id, all);
}

void StateImage::read_stored(TensorId id, const Sink& sink) const {
  const Shape& shape = tensor_of(id).spec.shape;
  const Layout& layout = executable_.plan().placements[static_cast<size_t>(id)].layout;
  const int64_t element = element_bytes(id);
  const std::byte* stored = at(id);
  if (layout.row_major()) return sink({stored, static_cast<size_t>(numel(shape) * element)});
  with_element(element, [&](auto unit) {
    using Unit = decltype(unit);
    read_rows(reinterpret_cast<const Unit*>(stored), rows_of(layout), sink);
  });
}

void StateImage::write_stored(TensorId id, std::span<const std::byte> bytes) {
  const Shape& shape = tensor_of(id).spec.shape;
  const Layout& layout = executable_.plan().placements[static_cast<size_t>(id)].layout;
  const int64_t element = element_bytes(id);
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

void change_state(Executable& executable, OtherImages* others,
                  const std::function<void(StateImage&)>& change) {
  const bool is_async = executable.plan().is_async;
  StateImage image(executable, is_async ? StateImage::Memory::own : StateImage::Memory::shared, others);
  image.take();
  change(image);
  image.restore();
}

}  // namespace trainer
