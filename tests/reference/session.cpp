// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/session.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace trainer {

Session::Session(const Program& program, Backend& backend, uint64_t seed)
    : backend_(backend), executable_(make_plan(program, backend), backend) {
  initialize(executable_, seed);
  const std::vector<Tensor>& tensors = executable_.plan().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].role != Role::input) continue;
    const TensorSpec& spec = tensors[i].spec;
    const auto input = static_cast<TensorId>(i);
    Buffer& buffer = inputs_[input];
    const int64_t bytes = numel(spec.shape) * backend.element_bytes(spec.dtype);
    buffer = backend.is_async() ? backend.allocate(bytes) : backend.allocate_batch(bytes);
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
    const TensorSpec& spec = executable_.plan().tensors[static_cast<size_t>(tensor)].spec;
    if (static_cast<int64_t>(values.size()) != numel(spec.shape))
      throw std::logic_error(name + ": wrong size");
    backend_.upload(input->second.data(), values.data(), numel(spec.shape), spec.dtype);
  }
}

void Session::set(const std::map<std::string, std::vector<float>>& values) {
  for (const auto& [name, numbers] : values) set(name, numbers);
}

void Session::run(const std::string& entry) {
  const std::span<std::byte> scratch = executable_.scratch();
  if (backend_.is_async()) {
    const std::vector<float> poison(scratch.size() / sizeof(float), std::numeric_limits<float>::quiet_NaN());
    backend_.upload(scratch.data(), poison.data(), static_cast<int64_t>(poison.size()), DType::f32);
  } else {
    std::memset(scratch.data(), 0xFF, scratch.size());
  }
  executable_.run(executable_.entry(entry));
}

std::vector<double> Session::output(const std::string& entry, const std::string& name) const {
  const TensorId found = executable_.plan().entry(entry).output(name);
  if (found == kNone) throw std::logic_error("no output is named " + name);
  return values(found);
}

std::vector<double> Session::persistent(const std::string& name) const {
  return values(id(name));
}

std::vector<std::byte> Session::input_bytes(const std::string& name) const {
  const Buffer& buffer = inputs_.at(id(name));
  if (!backend_.is_async()) return {buffer.data(), buffer.data() + buffer.bytes()};
  const Buffer host = backend_.allocate_batch(buffer.bytes());
  backend_.fetch(host.data(), buffer.data(), buffer.bytes());
  backend_.synchronize(backend_.record_event());
  return {host.data(), host.data() + host.bytes()};
}

std::vector<double> Session::values(TensorId tensor) const {
  const TensorSpec& spec = executable_.plan().tensors[static_cast<size_t>(tensor)].spec;
  if (is_floating(spec.dtype) && backend_.element_bytes(DType::f32) == sizeof(double)) {
    const auto* stored = static_cast<const double*>(executable_.address(tensor));
    return {stored, stored + numel(spec.shape)};
  }
  const std::vector<float> narrow = executable_.read(tensor);
  return {narrow.begin(), narrow.end()};
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
