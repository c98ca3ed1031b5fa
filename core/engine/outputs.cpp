// SPDX-License-Identifier: Apache-2.0
#include "core/engine/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace trainer {
namespace {

constexpr int64_t kPlaceBytes = 8;

template <class T>
double number(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return static_cast<double>(value);
}

}  // namespace

Outputs::Outputs(Executable& executable, size_t entry, int64_t depth)
    : executable_(executable), points_(static_cast<size_t>(depth)) {
  const Plan& plan = executable.plan();
  for (const NamedTensor& output : plan.entries[entry].outputs) {
    const TensorSpec& spec = plan.tensors[static_cast<size_t>(output.tensor)].spec;
    if (spec.shape != Shape{1}) continue;
    names_.push_back(output.name);
    tensors_.push_back(output.tensor);
    dtypes_.push_back(spec.dtype);
  }
  values_.resize(names_.size());
  memory_ = executable.backend().allocate_batch(depth * static_cast<int64_t>(names_.size()) * kPlaceBytes);
}

std::byte* Outputs::place(int64_t run, size_t output) const {
  const auto row = static_cast<size_t>(run) % points_.size();
  return memory_.data() + (row * names_.size() + output) * kPlaceBytes;
}

void Outputs::ask() {
  if (asked_ - taken_ >= static_cast<int64_t>(points_.size()))
    throw std::logic_error("too many runs under way");
  Backend& backend = executable_.backend();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    backend.fetch(place(asked_, i), executable_.address(tensors_[i]), backend.element_bytes(dtypes_[i]));
  }
  points_[static_cast<size_t>(asked_) % points_.size()] = backend.record_event();
  ++asked_;
}

const std::vector<double>& Outputs::take() {
  if (taken_ == asked_) throw std::logic_error("no run was asked for its outputs");
  Backend& backend = executable_.backend();
  backend.synchronize(points_[static_cast<size_t>(taken_) % points_.size()]);
  for (size_t i = 0; i < values_.size(); ++i) {
    const std::byte* from = place(taken_, i);
    const bool wide = backend.element_bytes(dtypes_[i]) == sizeof(double);
    values_[i] = dtypes_[i] == DType::i32 ? number<int32_t>(from)
                 : wide                   ? number<double>(from)
                                          : number<float>(from);
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
