// SPDX-License-Identifier: Apache-2.0
#include "cuda/inspect.h"

#include <cudnn_ops.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

#include "core/base/json.h"
#include "cuda/check.h"
#include "cuda/cudnn/attention_graph.h"
#include "cuda/cudnn/descriptor.h"

namespace trainer::cuda {
namespace {

/// 13010 -> "13.1"
std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// cuDNN's own description of a GPU, with which plans for it can be made elsewhere.
Json properties_of(int device) {
  cudnn::Descriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "a device's description");
  properties.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, int32_t{device});
  properties.finalize();
  const auto characters = properties.values<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
  const std::string text(characters.begin(), characters.end());
  return Json::parse(text.substr(0, text.find('\0'))).value();
}

Json device_of(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "reading a GPU's properties");
  check(cudaSetDevice(device), "choosing a GPU");
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "reading a GPU's free memory");
  std::array<char, 32> bus{};
  check(cudaDeviceGetPCIBusId(bus.data(), bus.size(), device), "asking for a GPU's place");
  return {{"name", properties.name},
          {"pci_bus_id", bus.data()},
          {"compute_capability", fmt::format("{}.{}", properties.major, properties.minor)},
          {"memory_bytes", total},
          {"free_bytes", free},
          {"properties", properties_of(device)}};
}

}  // namespace

std::string inspect() {
  Json found;
  Dl_info here{};
  if (dladdr(reinterpret_cast<void*>(&inspect), &here) != 0) found["library"] = here.dli_fname;
  int driver = 0, runtime = 0, count = 0;
  check(cudaDriverGetVersion(&driver), "reading the driver's version");
  check(cudaRuntimeGetVersion(&runtime), "reading the runtime's version");
  found["driver"] = driver == 0 ? "none" : "for CUDA " + cuda_version(driver);
  found["runtime"] = "CUDA " + cuda_version(runtime);
  const size_t dnn = cudnnGetVersion(), blas = cublasLtGetVersion();
  found["cudnn"] = fmt::format("{}.{}.{}", dnn / 10000, dnn / 100 % 100, dnn % 100);
  found["cublaslt"] = fmt::format("{}.{}.{}", blas / 10000, blas / 100 % 100, blas % 100);
  if (const auto note = cudnn::note_of_old_release(dnn)) found["attention"] = *note;
  found["devices"] = Json::array();
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    found["problem"] = "cudaGetDeviceCount returned " + describe(status);
    return found.dump();
  }
  for (int device = 0; device < count; ++device) found["devices"].push_back(device_of(device));
  return found.dump();
}

}  // namespace trainer::cuda
