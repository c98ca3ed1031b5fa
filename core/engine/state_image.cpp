// SPDX-License-Identifier: Apache-2.0
#include "core/engine/state_image.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "core/engine/row_order.h"

namespace trainer {
namespace {

using Sink = std::function<void(std::span<const std::byte>)>;

constexpr int64_t kExchangeBytes = int64_t{1} << 20;
/// Copies of a piece on its way: in frames, on the connection, as text, and for the reader.
constexpr int64_t kCopiesAtOnce = 8;

/// What one rank holds of a tensor that ranks divide.
struct Share {
  int64_t rank;
  int64_t elements;
  std::vector<ElementRun> runs;
};

int64_t share_count(const Tensor& tensor) {
  return tensor.rank ? 1 : tensor.part ? tensor.part->count() : 0;
}

Share share_of(const Tensor& tensor, int64_t index) {
  const int64_t rank = first_holder(tensor, index);
  if (tensor.rank) {
    const int64_t all = numel(tensor.spec.shape);
    return {.rank = rank, .elements = all, .runs = {{0, 0, all}}};
  }
  return {.rank = rank, .elements = numel(tensor.part->shape()), .runs = tensor.part->runs(index)};
}

/// Calls visit(tensor, placement) for each tensor that ranks divide and checkpoints hold.
template <class Visit>
void visit_divided(const Plan& plan, const Visit& visit) {
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    if (outlives_step(plan.tensors[i].role) && is_divided(plan.tensors[i]))
      visit(plan.tensors[i], plan.placements[i]);
  }
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

/// Calls exchange(first byte of the share, piece) for consecutive pieces.
template <class Exchange>
void visit_pieces(const Share& share, int64_t element, const Exchange& exchange) {
  const int64_t all = share.elements * element;
  std::vector<std::byte> piece(static_cast<size_t>(std::min(kExchangeBytes, all)));
  for (int64_t begin = 0; begin < all; begin += kExchangeBytes)
    exchange(begin, std::span(piece).first(static_cast<size_t>(std::min(kExchangeBytes, all - begin))));
}

}  // namespace

int64_t first_holder(const Tensor& tensor, int64_t index) {
  if (tensor.rank) return *tensor.rank;
  const Part& part = tensor.part.value();
  const int64_t stage = tensor.stages.empty() ? 0 : std::ranges::min(tensor.stages);
  return stage * part.mesh.ranks_of_stage() + part.holder(index);
}

StateImage::StateImage(Executable& executable, Memory memory, OtherImages* others, Extent extent)
    : executable_(executable),
      others_(others),
      bytes_(image_bytes(executable.plan(), extent)),
      data_(executable.persistent().data()) {
  if (memory == Memory::shared) return;
  memory_ = executable.device().allocate_batch(bytes_);
  data_ = memory_->data();
}

int64_t StateImage::image_bytes(const Plan& plan, Extent extent) {
  return extent == Extent::all ? plan.persistent_bytes : plan.divided_bytes;
}

int64_t StateImage::exchange_bytes(const Plan& plan) {
  int64_t largest = 0;
  visit_divided(plan, [&](const Tensor& tensor, const Placement& place) {
    const int64_t whole = numel(whole_shape(tensor)) * place.element_bytes;
    const int64_t converted = place.region == Region::persistent && !place.layout.row_major()
                                  ? numel(tensor.spec.shape) * place.element_bytes
                                  : 0;
    largest = std::max(largest, plan.rank == 0 ? whole + converted : converted);
  });
  const bool exchanges = plan.rank == 0 ? largest > 0 : has_share(plan, plan.rank);
  return exchanges ? largest + kCopiesAtOnce * kExchangeBytes : 0;
}

bool StateImage::is_divided(const Plan& plan) {
  bool found = false;
  visit_divided(plan, [&](const Tensor&, const Placement&) { found = true; });
  return found;
}

bool StateImage::has_share(const Plan& plan, int64_t rank) {
  bool found = false;
  visit_divided(plan, [&](const Tensor& tensor, const Placement&) {
    for (int64_t index = 0; index < share_count(tensor) && !found; ++index)
      found = first_holder(tensor, index) == rank;
  });
  return found;
}

StateImage::Memory StateImage::usual_memory(const Plan& plan) {
  return plan.is_async ? Memory::own : Memory::shared;
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
  return {data_, static_cast<size_t>(bytes_)};
}

std::byte* StateImage::at(TensorId id) const {
  const Placement& place = executable_.plan().placements[static_cast<size_t>(id)];
  if (place.region != Region::persistent || place.offset + place.bytes > bytes_)
    throw std::logic_error("a tensor that this image does not hold");
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
  if (!trainer::is_divided(tensor)) return read_stored(id, sink);
  const int64_t element = element_bytes(id);
  const auto size = static_cast<size_t>(numel(whole_shape(tensor)) * element);
  if (whole_.size() < size) whole_.resize(std::max(size, largest_whole()));
  const std::span<std::byte> whole = std::span(whole_).first(size);
  std::ranges::fill(whole, std::byte{0});
  for (int64_t index = 0; index < share_count(tensor); ++index) {
    const Share share = share_of(tensor, index);
    const auto put = [&](int64_t begin, std::span<const std::byte> piece) {
      visit_runs(share, element, begin, begin + static_cast<int64_t>(piece.size()),
                 [&](int64_t from, int64_t to, int64_t count) {
                   std::copy_n(piece.begin() + from, count, whole.begin() + to);
                 });
    };
    if (share.rank == executable_.plan().rank) {
      read_stored(id, [&, begin = int64_t{0}](std::span<const std::byte> rows) mutable {
        put(begin, rows);
        begin += static_cast<int64_t>(rows.size());
      });
      continue;
    }
    visit_pieces(share, element, [&](int64_t begin, std::span<std::byte> piece) {
      others().read(share.rank, tensor.name, begin, piece);
      put(begin, piece);
    });
  }
  sink(whole);
}

void StateImage::write(TensorId id, std::span<const std::byte> bytes) {
  const Tensor& tensor = tensor_of(id);
  if (!trainer::is_divided(tensor)) return write_stored(id, bytes);
  whole_ = {};  // the caller has the whole now
  const int64_t element = element_bytes(id);
  if (static_cast<int64_t>(bytes.size()) != numel(whole_shape(tensor)) * element)
    throw std::logic_error("write: wrong number of bytes");
  for (int64_t index = 0; index < share_count(tensor); ++index) {
    const Share share = share_of(tensor, index);
    visit_pieces(share, element, [&](int64_t begin, std::span<std::byte> piece) {
      std::ranges::fill(piece, std::byte{0});
      visit_runs(share, element, begin, begin + static_cast<int64_t>(piece.size()),
                 [&](int64_t to, int64_t from, int64_t count) {
                   std::copy_n(bytes.begin() + from, count, piece.begin() + to);
                 });
      if (share.rank == executable_.plan().rank) {
        write_own(tensor.name, begin, piece);
      } else {
        others().write(share.rank, tensor.name, begin, piece);
      }
    });
  }
}

size_t StateImage::largest_whole() const {
  int64_t largest = 0;
  visit_divided(executable_.plan(), [&](const Tensor& tensor, const Placement& place) {
    largest = std::max(largest, numel(whole_shape(tensor)) * place.element_bytes);
  });
  return static_cast<size_t>(largest);
}

OtherImages& StateImage::others() const {
  if (others_ == nullptr) throw std::logic_error("a tensor that another rank holds");
  return *others_;
}

/// The tensor's, if it has these bytes.
TensorId StateImage::checked_id(const std::string& tensor, int64_t begin, size_t count) const {
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
  const TensorId id = checked_id(tensor, begin, bytes.size());
  const std::span<std::byte> all = own(id);
  std::copy_n(all.begin() + begin, bytes.size(), bytes.begin());
  const bool is_last = begin + static_cast<int64_t>(bytes.size()) == static_cast<int64_t>(all.size());
  if (is_last) converted_ = {};
}

void StateImage::write_own(const std::string& tensor, int64_t begin, std::span<const std::byte> bytes) {
  const TensorId id = checked_id(tensor, begin, bytes.size());
  const std::span<std::byte> all = own(id);
  std::ranges::copy(bytes, all.begin() + begin);
  const bool is_last = begin + static_cast<int64_t>(bytes.size()) == static_cast<int64_t>(all.size());
  if (!is_last) return;
  if (converted_.id == id) write_stored(id, all);
  converted_ = {};
}

void StateImage::read_stored(TensorId id, const Sink& sink) const {
  read_in_row_order(at(id), tensor_of(id).spec.shape,
                    executable_.plan().placements[static_cast<size_t>(id)].layout, element_bytes(id), sink);
}

void StateImage::write_stored(TensorId id, std::span<const std::byte> bytes) {
  write_in_row_order(bytes, tensor_of(id).spec.shape,
                     executable_.plan().placements[static_cast<size_t>(id)].layout, element_bytes(id),
                     at(id));
}

}  // namespace trainer
