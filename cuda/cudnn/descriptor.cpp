// SPDX-License-Identifier: Apache-2.0
#include "cuda/cudnn/descriptor.h"

#include <cudnn_ops.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/error.h"

namespace trainer::cuda::cudnn {

std::string describe(cudnnStatus_t status) {
  std::array<char, 512> text{};
  cudnnGetLastErrorString(text.data(), text.size());
  const std::string words = text.data();
  return words.empty() ? std::string(cudnnGetErrorString(status))
                       : fmt::format("{} ({})", cudnnGetErrorString(status), words);
}

void check(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  if (status == CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED ||
      status == CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH) {
    throw Error(
        ExitCode::no_device,
        fmt::format(
            "cuDNN is incomplete: {}; install all of its libraries, of one release, next to libcudnn.so.9",
            describe(status)));
  }
  throw Error(ExitCode::internal, fmt::format("{}: cuDNN returned {}", what, describe(status)));
}

void Descriptor::Destroy::operator()(cudnnBackendDescriptor_t descriptor) const {
  static_cast<void>(cudnnBackendDestroyDescriptor(descriptor));
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type, const char* name) : name_(name) {
  cudnnBackendDescriptor_t made = nullptr;
  check(cudnnBackendCreateDescriptor(type, &made), name);
  handle_.reset(made);
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t attribute, const std::vector<Descriptor>& values) {
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Descriptor& value : values) handles.push_back(value.get());
  return set(attribute, handles);
}

Descriptor& Descriptor::finalize() {
  check(try_finalize(), name_);
  return *this;
}

std::vector<Descriptor> Descriptor::children(cudnnBackendAttributeName_t attribute,
                                             cudnnBackendDescriptorType_t type, const char* name,
                                             size_t most) const {
  std::vector<Descriptor> found;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (size_t i = 0; i < most; ++i) handles.push_back(found.emplace_back(type, name).get());
  if (most == 0) return found;
  const size_t filled = fetch(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, handles.data());
  found.erase(found.begin() + static_cast<std::ptrdiff_t>(std::min(filled, most)), found.end());
  return found;
}

Descriptor& Descriptor::set_all(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type,
                                size_t count, const void* values) {
  const auto elements = static_cast<int64_t>(count);
  const cudnnStatus_t status = cudnnBackendSetAttribute(get(), attribute, type, elements, values);
  if (status != CUDNN_STATUS_SUCCESS) check(status, fmt::format("{}, attribute {}", name_, int{attribute}));
  return *this;
}

size_t Descriptor::fetch(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, size_t room,
                         void* values) const {
  int64_t elements = 0;
  const cudnnStatus_t status =
      cudnnBackendGetAttribute(get(), attribute, type, static_cast<int64_t>(room), &elements, values);
  if (status != CUDNN_STATUS_SUCCESS) check(status, fmt::format("{}, attribute {}", name_, int{attribute}));
  return static_cast<size_t>(elements);
}

}  // namespace trainer::cuda::cudnn
