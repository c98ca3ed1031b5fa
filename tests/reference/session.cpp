// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/session.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace trainer {

Session::Session(const Program& program, const Backend& backend, uint64_t seed)
    : executable_(make_plan(program, *backend.planner), *backend.device) {
  initialize(executable_, seed);
  const Plan& plan = executable_.plan();
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    if (plan.tensors[i].role != Role::input) continue;
    const auto input = static_cast<TensorId>(i);
    Buffer& buffer = inputs_[input];
    const int64_t bytes = numel(plan.tensors[i].spec.shape) * plan.stored_type(input).bytes;
    buffer = plan.is_async ? backend.device->allocate(bytes) : backend.device->allocate_batch(bytes);
    executable_.bind(input, buffer.data());
  }
}

TensorId Session::id(const std::string& name) const {
  const TensorId found = executable_.tensor(name);
  if (found == kNone) throw std::logic_error("no tensor is named " + name);
  return found;
}

void Session::set(const std::string& name, const std::vector<float>& values) {
  const TensorId tensor = id(name);
  const auto input = inputs_.find(tensor);
  if (input == inputs_.end()) {
    executable_.write(tensor, values);
  } else {
    const Plan& plan = executable_.plan();
    if (static_cast<int64_t>(values.size()) != numel(plan.tensors[static_cast<size_t>(tensor)].spec.shape))
      throw std::logic_error(name + ": wrong size");
    executable_.device().copy_to_device(input->second.data(),
                                        to_stored(std::span(values), plan.stored_type(tensor)));
  }
}

void Session::set(const std::map<std::string, std::vector<float>>& values) {
  for (const auto& [name, numbers] : values) set(name, numbers);
}

void Session::run(const std::string& entry) {
  const std::span<std::byte> scratch = executable_.scratch();
  constexpr int kNan = 0xFF;  // in every byte of any floating type
  if (executable_.plan().is_async) {
    const std::vector<std::byte> poison(scratch.size(), std::byte{kNan});
    executable_.device().copy_to_device(scratch.data(), poison);
  } else {
    std::memset(scratch.data(), kNan, scratch.size());
  }
  executable_.run(executable_.entry(entry));
}

std::vector<double> Session::output(const std::string& entry, const std::string& name) const {
  const TensorId found = executable_.plan().entry(entry).output(name);
  if (found == kNone) throw std::logic_error("no output is named " + name);
  return executable_.read<double>(found);
}

std::vector<double> Session::persistent(const std::string& name) const {
  return executable_.read<double>(id(name));
}

std::vector<std::byte> Session::input_bytes(const std::string& name) const {
  const Buffer& buffer = inputs_.at(id(name));
  std::vector<std::byte> bytes(static_cast<size_t>(buffer.bytes()));
  executable_.device().copy_to_host(bytes, buffer.data());
  return bytes;
}

double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  const double error = difference == 0 ? 0 : std::sqrt(difference / size);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

}  // namespace trainer
