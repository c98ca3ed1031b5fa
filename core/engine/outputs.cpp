// SPDX-License-Identifier: Apache-2.0
#include "core/engine/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace trainer {
namespace {

constexpr int64_t kPlaceBytes = 8;

/// kNone where no output has the name.
TensorId output_named(const PlannedEntry& entry, std::string_view name) {
  const auto found = std::ranges::find(entry.outputs, name, &NamedTensor::name);
  return name.empty() || found == entry.outputs.end() ? kNone : found->tensor;
}

}  // namespace

Outputs::Outputs(Executable& executable, size_t entry, int64_t depth, std::string_view list)
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
  list_tensor_ = output_named(plan.entries[entry], list);
  if (list_tensor_ != kNone) {
    const TensorSpec& spec = plan.tensors[static_cast<size_t>(list_tensor_)].spec;
    if (spec.shape.size() != 1 || spec.dtype != DType::i32)
      throw std::logic_error(fmt::format("the output {} is no list of whole numbers", list));
    list_bytes_ = numel(spec.shape) * bytes_per_element(spec.dtype);
  }
  memory_ = executable.device().allocate_batch(depth * row_bytes());
}

/// Rounded up to whole places.
int64_t Outputs::row_bytes() const {
  return (static_cast<int64_t>(names_.size()) + (list_bytes_ + kPlaceBytes - 1) / kPlaceBytes) * kPlaceBytes;
}

std::byte* Outputs::place(int64_t run, size_t output) const {
  const auto row = static_cast<size_t>(run) % events_.size();
  return memory_.data() + row * static_cast<size_t>(row_bytes()) + output * kPlaceBytes;
}

void Outputs::ask() {
  if (asked_ - taken_ >= static_cast<int64_t>(events_.size()))
    throw std::logic_error("too many runs in flight");
  Device& device = executable_.device();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    device.copy_to_host_async({place(asked_, i), static_cast<size_t>(types_[i].bytes)},
                              executable_.address(tensors_[i]));
  }
  if (list_bytes_ > 0) {
    device.copy_to_host_async({list_place(asked_), static_cast<size_t>(list_bytes_)},
                              executable_.address(list_tensor_));
  }
  events_[static_cast<size_t>(asked_) % events_.size()] = device.record_event();
  ++asked_;
}

const std::vector<double>& Outputs::take() {
  if (taken_ == asked_) throw std::logic_error("no run was asked for its outputs");
  Device& device = executable_.device();
  device.synchronize(events_[static_cast<size_t>(taken_) % events_.size()]);
  for (size_t i = 0; i < values_.size(); ++i) values_[i] = stored_number(place(taken_, i), types_[i]);
  if (list_bytes_ > 0) {
    list_ = {reinterpret_cast<const int32_t*>(list_place(taken_)),
             static_cast<size_t>(list_bytes_) / sizeof(int32_t)};
  }
  ++taken_;
  return values_;
}

size_t Outputs::index(const std::string& name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) throw std::logic_error(fmt::format("no output is named {}", name));
  return static_cast<size_t>(found - names_.begin());
}

}  // namespace trainer
