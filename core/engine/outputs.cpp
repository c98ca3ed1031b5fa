// SPDX-License-Identifier: Apache-2.0
#include "core/engine/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace trainer {
namespace {

constexpr int64_t kPlaceBytes = 8;

}  // namespace

Outputs::Outputs(Executable& executable, size_t entry, int64_t depth)
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
  memory_ = executable.device().allocate_batch(depth * static_cast<int64_t>(names_.size()) * kPlaceBytes);
}

std::byte* Outputs::place(int64_t run, size_t output) const {
  const auto row = static_cast<size_t>(run) % events_.size();
  return memory_.data() + (row * names_.size() + output) * kPlaceBytes;
}

void Outputs::ask() {
  if (asked_ - taken_ >= static_cast<int64_t>(events_.size()))
    throw std::logic_error("too many runs in flight");
  Device& device = executable_.device();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    device.copy_to_host_async({place(asked_, i), static_cast<size_t>(types_[i].bytes)},
                              executable_.address(tensors_[i]));
  }
  events_[static_cast<size_t>(asked_) % events_.size()] = device.record_event();
  ++asked_;
}

const std::vector<double>& Outputs::take() {
  if (taken_ == asked_) throw std::logic_error("no run was asked for its outputs");
  Device& device = executable_.device();
  device.synchronize(events_[static_cast<size_t>(taken_) % events_.size()]);
  for (size_t i = 0; i < values_.size(); ++i) values_[i] = stored_number(place(taken_, i), types_[i]);
  ++taken_;
  return values_;
}

size_t Outputs::index(const std::string& name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) throw std::logic_error(fmt::format("no output is named {}", name));
  return static_cast<size_t>(found - names_.begin());
}

}  // namespace trainer
