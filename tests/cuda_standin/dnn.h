// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudnn_graph.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// cuDNN's graph interface, as far as the CUDA backend calls it: objects with attributes, and engines that run
// graphs of them. A graph has one convolution and the operations after it, or attention (dnn_steps.h).

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace trainer::standin {

/// The result of a call.
struct Refusal {
  cudnnStatus_t status;
  std::string reason;
};

struct Object;
using ObjectPointer = std::shared_ptr<Object>;

struct Attribute {
  cudnnBackendAttributeType_t type = CUDNN_TYPE_VOID_PTR;
  int64_t count = 0;
  std::vector<std::byte> bytes;
  std::vector<ObjectPointer> objects;  ///< instead of bytes
};

struct Object {
  cudnnBackendDescriptorType_t type;
  bool is_finalized = false;
  std::map<int, Attribute> attributes;

  bool has(cudnnBackendAttributeName_t name) const { return attributes.contains(name); }
  const Attribute& at(cudnnBackendAttributeName_t name) const;
  template <class T>
  std::vector<T> values(cudnnBackendAttributeName_t name) const {
    const Attribute& attribute = at(name);
    std::vector<T> found(static_cast<size_t>(attribute.count));
    if (!found.empty()) std::memcpy(found.data(), attribute.bytes.data(), attribute.bytes.size());
    return found;
  }
  /// The first.
  template <class T>
  T value(cudnnBackendAttributeName_t name) const {
    T first{};
    if (at(name).bytes.size() < sizeof first)
      throw Refusal{CUDNN_STATUS_BAD_PARAM, "an attribute without a value"};
    std::memcpy(&first, at(name).bytes.data(), sizeof first);
    return first;
  }
  const Object& child(cudnnBackendAttributeName_t name) const { return *at(name).objects.at(0); }

  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t value_type,
           const std::vector<T>& values) {
    Attribute& attribute = attributes[name];
    attribute = {.type = value_type, .count = static_cast<int64_t>(values.size())};
    attribute.bytes.resize(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(attribute.bytes.data(), values.data(), attribute.bytes.size());
  }
  void set(cudnnBackendAttributeName_t name, std::vector<ObjectPointer> objects) {
    const auto count = static_cast<int64_t>(objects.size());
    attributes[name] = {.type = CUDNN_TYPE_BACKEND_DESCRIPTOR, .count = count, .objects = std::move(objects)};
  }
};

/// (N, C, H, W), dense with the channels last.
struct Images {
  std::array<int64_t, 4> shape{};
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int64_t uid = 0, alignment = 0;
  bool is_virtual = false;
  int64_t count() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
};

/// Follows the convolution: bias or relu, or neither in a conversion.
struct Pointwise {
  cudnnPointwiseMode_t mode;
  std::optional<Images> other;
};

enum class Direction { forward, backward_data, backward_weights };

struct Graph {
  Direction direction = Direction::forward;
  Images x, w, y;
  std::array<int64_t, 2> padding{}, stride{}, dilation{};
  std::vector<Pointwise> rest;
  Images result;                              ///< of the last operation
  std::optional<std::array<Images, 2>> sums;  ///< of the result and of its squares, by channel

  int64_t groups() const { return x.shape[1] / w.shape[1]; }
};

/// The graph of an object of operations. Throws Refusal if the stand-in has no equal graph.
Graph graph_of(const Object& operations);

/// Configurations of engines for the graph, best first.
std::vector<ObjectPointer> configurations(const Object& operations, cudnnBackendHeurMode_t mode);
/// An engine's notes on its numbers.
std::vector<cudnnBackendNumericalNote_t> notes_of(int64_t engine);
int64_t workspace_of(int64_t engine);
/// Throws Refusal if the engine does not accept the graph.
void expect_taken(int64_t engine, const Object& operations);
/// A plan as text, and the plan from its text. Throws Refusal if it is not one.
std::string text_of(const Object& plan);
Object plan_from(const std::string& text);
/// Enqueues one run.
void execute(cudnnHandle_t handle, const Object& plan, const Object& addresses);

/// The graph's result from its tensors, by their uid, in f32.
void convolve(const Graph& graph, const std::map<int64_t, void*>& tensors);

}  // namespace trainer::standin
