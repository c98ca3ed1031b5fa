// SPDX-License-Identifier: Apache-2.0
#include "core/engine/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "core/engine/arena.h"

namespace trainer {
namespace {

/// kNone if no output has the name.
TensorId output_named(const PlannedEntry& entry, std::string_view name) {
  const auto found = std::ranges::find(entry.outputs, name, &NamedTensor::name);
  return name.empty() || found == entry.outputs.end() ? kNone : found->tensor;
}

}  // namespace

Outputs::Outputs(Executable& executable, size_t entry, int64_t depth, std::string_view list,
                 const std::vector<std::string_view>& arrays)
    : executable_(executable), events_(static_cast<size_t>(depth)) {
  const Plan& plan = executable.plan();
  for (const NamedTensor& output : plan.entries[entry].outputs) {
    const TensorSpec& spec = plan.tensors[static_cast<size_t>(output.tensor)].spec;
    if (spec.shape != Shape{1}) continue;
    names_.push_back(output.name);
    tensors_.push_back(output.tensor);
    types_.push_back(plan.stored_type(output.tensor));
  }
  values_.resize(names_.size());
  find_ranges();
  const TensorId list_tensor = output_named(plan.entries[entry], list);
  if (list_tensor != kNone) {
    const TensorSpec& spec = plan.tensors[static_cast<size_t>(list_tensor)].spec;
    if (spec.shape.size() != 1 || spec.dtype != DType::i32)
      throw std::logic_error(fmt::format("the output {} is not a list of whole numbers", list));
    list_bytes_ = numel(spec.shape) * bytes_per_element(spec.dtype);
    add_range(list_tensor, list_bytes_);
    list_place_ = ranges_.back().place;
  }
  for (const std::string_view name : arrays) add_array(plan.entries[entry], name);
  memory_ = executable.device().allocate_batch(depth * row_bytes());
}

void Outputs::find_ranges() {
  const auto at = [this](TensorId id) -> const Placement& {
    return executable_.plan().placements[static_cast<size_t>(id)];
  };
  std::vector<size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, std::less<>{},
                    [&](size_t i) { return std::pair(at(tensors_[i]).region, at(tensors_[i]).offset); });
  places_.resize(tensors_.size());
  for (const size_t i : order) {
    const Placement& own = at(tensors_[i]);
    const auto distance = [&] { return own.offset - at(ranges_.back().first).offset; };
    const bool joins = !ranges_.empty() && own.region != Region::input &&
                       own.region == at(ranges_.back().first).region &&
                       distance() <= align_up(ranges_.back().bytes);
    if (!joins) add_range(tensors_[i], 0);
    ranges_.back().bytes = distance() + types_[i].bytes;
    places_[i] = ranges_.back().place + distance();
  }
}

/// Outputs are row-major.
void Outputs::add_array(const PlannedEntry& entry, std::string_view name) {
  const TensorId tensor = output_named(entry, name);
  if (tensor == kNone) return;
  const Plan& plan = executable_.plan();
  const int64_t count = numel(plan.tensors[static_cast<size_t>(tensor)].spec.shape);
  const StoredType type = plan.stored_type(tensor);
  add_range(tensor, count * type.bytes);
  arrays_.push_back(
      {std::string(name), type, ranges_.back().place, std::vector<float>(static_cast<size_t>(count))});
}

void Outputs::take_array(Array& array) const {
  const std::byte* stored = place(taken_, array.place);
  for (float& number : array.numbers) {
    number = static_cast<float>(stored_number(stored, array.type));
    stored += array.type.bytes;
  }
}

std::span<const float> Outputs::array(std::string_view name) const {
  const auto found = std::ranges::find(arrays_, name, &Array::name);
  return found == arrays_.end() ? std::span<const float>() : std::span<const float>(found->numbers);
}

int64_t Outputs::row_bytes() const {
  return ranges_.empty() ? 0 : ranges_.back().place + align_up(ranges_.back().bytes);
}

void Outputs::add_range(TensorId first, int64_t bytes) {
  ranges_.push_back({first, bytes, row_bytes()});
}

std::byte* Outputs::place(int64_t run, int64_t in_row) const {
  return memory_.data() + run % static_cast<int64_t>(events_.size()) * row_bytes() + in_row;
}

void Outputs::ask() {
  if (asked_ - taken_ >= static_cast<int64_t>(events_.size()))
    throw std::logic_error("too many runs in flight");
  Device& device = executable_.device();
  for (const Range& range : ranges_) {
    device.copy_to_host_async({place(asked_, range.place), static_cast<size_t>(range.bytes)},
                              executable_.address(range.first));
  }
  events_[static_cast<size_t>(asked_) % events_.size()] = device.record_event();
  ++asked_;
}

const std::vector<double>& Outputs::take() {
  if (taken_ == asked_) throw std::logic_error("no run was asked for its outputs");
  Device& device = executable_.device();
  device.synchronize(events_[static_cast<size_t>(taken_) % events_.size()]);
  for (size_t i = 0; i < values_.size(); ++i)
    values_[i] = stored_number(place(taken_, places_[i]), types_[i]);
  if (list_bytes_ > 0) {
    list_ = {reinterpret_cast<const int32_t*>(place(taken_, list_place_)),
             static_cast<size_t>(list_bytes_) / sizeof(int32_t)};
  }
  for (Array& array : arrays_) take_array(array);
  ++taken_;
  return values_;
}

size_t Outputs::index(const std::string& name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) throw std::logic_error(fmt::format("no output is named {}", name));
  return static_cast<size_t>(found - names_.begin());
}

}  // namespace trainer
