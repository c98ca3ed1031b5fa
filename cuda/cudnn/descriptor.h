// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudnn_graph.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace trainer::cuda::cudnn {

/// "CUDNN_STATUS_BAD_PARAM (the library's own words)"
std::string describe(cudnnStatus_t status);

/// Throws Error (exit 69 if a part of cuDNN is not installed, 70 otherwise) unless the call succeeded.
void check(cudnnStatus_t status, std::string_view what);

/// The library's name for the type T of a value in an attribute; descriptors are void* to it.
template <class T>
constexpr cudnnBackendAttributeType_t attribute_type() {
  if constexpr (std::is_same_v<T, int64_t>) return CUDNN_TYPE_INT64;
  if constexpr (std::is_same_v<T, int32_t>) return CUDNN_TYPE_INT32;
  if constexpr (std::is_same_v<T, float>) return CUDNN_TYPE_FLOAT;
  if constexpr (std::is_same_v<T, bool>) return CUDNN_TYPE_BOOLEAN;
  if constexpr (std::is_same_v<T, char>) return CUDNN_TYPE_CHAR;
  if constexpr (std::is_same_v<T, cudnnHandle_t>) return CUDNN_TYPE_HANDLE;
  if constexpr (std::is_same_v<T, cudnnDataType_t>) return CUDNN_TYPE_DATA_TYPE;
  if constexpr (std::is_same_v<T, cudnnConvolutionMode_t>) return CUDNN_TYPE_CONVOLUTION_MODE;
  if constexpr (std::is_same_v<T, cudnnNanPropagation_t>) return CUDNN_TYPE_NAN_PROPOGATION;
  if constexpr (std::is_same_v<T, cudnnPointwiseMode_t>) return CUDNN_TYPE_POINTWISE_MODE;
  if constexpr (std::is_same_v<T, cudnnReduceTensorOp_t>) return CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
  if constexpr (std::is_same_v<T, cudnnGenStatsMode_t>) return CUDNN_TYPE_GENSTATS_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendHeurMode_t>) return CUDNN_TYPE_HEUR_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendKnobType_t>) return CUDNN_TYPE_KNOB_TYPE;
  if constexpr (std::is_same_v<T, cudnnBackendNumericalNote_t>) return CUDNN_TYPE_NUMERICAL_NOTE;
  if constexpr (std::is_same_v<T, cudnnBackendDescriptor_t>) return CUDNN_TYPE_BACKEND_DESCRIPTOR;
}

/// One object of cuDNN's graph interface: attributes are set, then it is finalised and can be used in others,
/// which copy what they need. A failed call throws Error with the object's name.
class Descriptor {
 public:
  /// `name` is for errors and must outlive the descriptor: a literal.
  Descriptor(cudnnBackendDescriptorType_t type, const char* name);

  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t attribute, const T& value) {
    return set_all(attribute, attribute_type<T>(), 1, &value);
  }
  Descriptor& set(cudnnBackendAttributeName_t attribute, const Descriptor& value) {
    return set(attribute, value.get());
  }
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t attribute, const std::vector<T>& values) {
    return set_all(attribute, attribute_type<T>(), values.size(), values.data());
  }
  Descriptor& set(cudnnBackendAttributeName_t attribute, const std::vector<Descriptor>& values);
  /// Addresses in device memory: the library's own handles of descriptors are void* as well.
  Descriptor& set_addresses(cudnnBackendAttributeName_t attribute, const std::vector<void*>& addresses) {
    return set_all(attribute, CUDNN_TYPE_VOID_PTR, addresses.size(), addresses.data());
  }
  Descriptor& finalize();
  /// finalize() for objects that the library may refuse: reports instead of throwing.
  cudnnStatus_t try_finalize() { return cudnnBackendFinalize(get()); }

  template <class T>
  std::vector<T> values(cudnnBackendAttributeName_t attribute) const {
    std::vector<T> found(count(attribute, attribute_type<T>()));
    found.resize(fetch(attribute, attribute_type<T>(), found.size(), found.data()));
    return found;
  }
  template <class T>
  T value(cudnnBackendAttributeName_t attribute) const {
    T found{};
    fetch(attribute, attribute_type<T>(), 1, &found);
    return found;
  }
  /// The first `most` of the descriptors that an attribute holds, which are of this type.
  std::vector<Descriptor> children(cudnnBackendAttributeName_t attribute, cudnnBackendDescriptorType_t type,
                                   const char* name, size_t most) const;
  /// The number of values of an attribute. A configuration's knobs are not counted: the result is 0.
  size_t count(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type) const {
    return fetch(attribute, type, 0, nullptr);
  }

  cudnnBackendDescriptor_t get() const { return handle_.get(); }

 private:
  struct Destroy {
    void operator()(cudnnBackendDescriptor_t descriptor) const;
  };

  Descriptor& set_all(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, size_t count,
                      const void* values);
  size_t fetch(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, size_t room,
               void* values) const;

  std::unique_ptr<std::remove_pointer_t<cudnnBackendDescriptor_t>, Destroy> handle_;
  const char* name_;
};

}  // namespace trainer::cuda::cudnn
