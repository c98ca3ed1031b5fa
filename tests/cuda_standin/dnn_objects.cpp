// SPDX-License-Identifier: Apache-2.0
#include <cudnn_ops.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "tests/cuda_standin/dnn.h"
#include "tests/cuda_standin/dnn_steps.h"
#include "tests/cuda_standin/runtime.h"

// The calls of cuDNN. A descriptor that a program holds points to a shared object, since others keep its
// attributes.

namespace trainer::standin {
namespace {

std::string last_error;

/// Its own description: sizes of NVIDIA's H200.
constexpr std::string_view kProperties = R"({
  "deviceName": "Stand-in GPU", "deviceVer": 900, "multiProcessorCount": 132, "totalGlobalMem": 17179869184,
  "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "l2CacheSize": 62914560, "warpSize": 32,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
  "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
  "regsPerBlock": 65536, "maxBlockSize": [1024, 1024, 64], "maxGridSize": [2147483647, 65535, 65535],
  "supportCoopLaunch": 1, "pciDeviceId": 27, "isTccDriver": 0, "cudaDeviceId": 0, "driverVer": 13000})";

ObjectPointer& object(cudnnBackendDescriptor_t descriptor) {
  if (descriptor == nullptr) throw Refusal{CUDNN_STATUS_BAD_PARAM, "no descriptor"};
  return *static_cast<ObjectPointer*>(descriptor);
}

template <class Call>
cudnnStatus_t call(const char* name, Call work) {
  const std::lock_guard lock(library_mutex());
  log_call(name);
  try {
    if (is_forked())
      throw Refusal{CUDNN_STATUS_NOT_INITIALIZED, "cuDNN in a process that was forked after CUDA began"};
    work();
    return CUDNN_STATUS_SUCCESS;
  } catch (const Refusal& refusal) {
    last_error = refusal.reason;
    return refusal.status;
  }
}

size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    default:
      return 4;
  }
}

Attribute attribute_of(cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  Attribute attribute{.type = type, .count = count};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* descriptors = static_cast<const cudnnBackendDescriptor_t*>(values);
    for (int64_t i = 0; i < count; ++i) {
      attribute.objects.push_back(object(descriptors[i]));
      if (!attribute.objects.back()->is_finalized)
        throw Refusal{CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                      "an object that is not finalised is set in another"};
    }
    return attribute;
  }
  const auto* bytes = static_cast<const std::byte*>(values);
  attribute.bytes.assign(bytes, bytes + static_cast<size_t>(count) * bytes_of(type));
  return attribute;
}

/// Objects that another call has to find in a finalised object.
void finalize_heuristics(Object& heuristics) {
  if (Streams::all().is_capturing()) {
    Streams::all().invalidate_captures();
    refuse("cuDNN: heuristics are asked while a stream is captured");
    throw Refusal{CUDNN_STATUS_EXECUTION_FAILED, last_refusal()};
  }
  auto found = configurations(heuristics.child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH),
                              heuristics.value<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE));
  if (found.empty()) throw Refusal{CUDNN_STATUS_NOT_SUPPORTED, "no engine for this graph"};
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_RESULTS, std::move(found));
}

void finalize_plan(Object& plan) {
  if (!plan.has(CUDNN_ATTR_EXECUTION_PLAN_HANDLE))
    throw Refusal{CUDNN_STATUS_BAD_PARAM, "a plan without a handle"};
  const bool is_read = plan.has(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  if (is_read) {
    const auto text = plan.values<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
    plan.attributes[CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG] =
        plan_from({text.begin(), text.end()}).at(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  }
  log_call(is_read ? "a plan is read" : "a plan is built");
  const Object& engine =
      plan.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).child(CUDNN_ATTR_ENGINECFG_ENGINE);
  const auto number = engine.value<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  expect_taken(number, engine.child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH));
  plan.set<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, {workspace_of(number)});
  const std::string text = text_of(plan);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
           std::vector<char>(text.begin(), text.end()));
}

void finalize(Object& one) {
  switch (one.type) {
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      if (has_steps(one)) {
        static_cast<void>(steps_of(one));
      } else {
        static_cast<void>(graph_of(one));
      }
      break;
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
      one.set(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
              notes_of(one.value<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX)));
      break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      finalize_heuristics(one);
      break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      finalize_plan(one);
      break;
    case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
      if (!one.has(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)) {
        one.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                std::vector<char>(kProperties.begin(), kProperties.end()));
      }
      break;
    default:
      break;
  }
  one.is_finalized = true;
}

/// Copies up to `room` values; returns how many there are. As in cuDNN a configuration's knobs are not
/// counted.
int64_t fetch(const Object& from, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
              int64_t room, void* values) {
  if (!from.is_finalized)
    throw Refusal{CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                  "an attribute is read before its object is finalised"};
  if (name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES && (room == 0 || !from.has(name))) return 0;
  const Attribute& attribute = from.at(name);
  if (attribute.type != type) throw Refusal{CUDNN_STATUS_BAD_PARAM, "an attribute is read as another type"};
  const auto count = static_cast<size_t>(std::min(room, attribute.count));
  for (size_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < count; ++i) {
    const ObjectPointer& to = object(static_cast<cudnnBackendDescriptor_t*>(values)[i]);
    if (to->type != attribute.objects[i]->type)
      throw Refusal{CUDNN_STATUS_BAD_PARAM, "descriptors of another type"};
    *to = *attribute.objects[i];
  }
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR && count > 0)
    std::memcpy(values, attribute.bytes.data(), count * bytes_of(type));
  return room == 0 ? attribute.count : static_cast<int64_t>(count);
}

}  // namespace

const Attribute& Object::at(cudnnBackendAttributeName_t name) const {
  const auto found = attributes.find(name);
  if (found == attributes.end())
    throw Refusal{CUDNN_STATUS_BAD_PARAM,
                  fmt::format("attribute {} of object {} is missing", int{name}, int{type})};
  return found->second;
}

}  // namespace trainer::standin

using namespace trainer::standin;  // NOLINT(google-build-using-namespace): what follows is C's

size_t cudnnGetVersion() {
  return 91900;
}

size_t cudnnGetCudartVersion() {
  return CUDART_VERSION;
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "an error of cuDNN";
}
void cudnnGetLastErrorString(char* text, size_t room) {
  std::snprintf(text, room, "%s", last_error.c_str());
  last_error.clear();
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* made) {
  *made = new ObjectPointer(std::make_shared<Object>(Object{.type = type}));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<ObjectPointer*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  return call("cudnnBackendSetAttribute", [&] {
    if (object(descriptor)->is_finalized)
      throw Refusal{CUDNN_STATUS_BAD_PARAM, "an attribute is set in an object that is finalised"};
    object(descriptor)->attributes[name] = attribute_of(type, count, values);
  });
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room, int64_t* count,
                                       void* values) {
  return call("cudnnBackendGetAttribute",
              [&] { *count = fetch(*object(descriptor), name, type, room, values); });
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return call("cudnnBackendFinalize", [&] { finalize(*object(descriptor)); });
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t addresses) {
  return call("cudnnBackendExecute", [&] { execute(handle, *object(plan), *object(addresses)); });
}
