// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "tests/cuda_emulation/memory.h"
#include "tests/cuda_standin/runtime.h"

// Memory of CUDA's runtime: the device's is the emulation's, which holds NaN until it is written.

using namespace trainer::standin;  // NOLINT(google-build-using-namespace): what follows is C's
using trainer::emulation::is_allocated;
using trainer::emulation::mark_written;

namespace {

/// Of the device: TRAINER_STANDIN_MEMORY, in MiB.
size_t device_bytes() {
  static const char* given = std::getenv("TRAINER_STANDIN_MEMORY");
  return size_t{given == nullptr ? 16384 : std::stoul(given)} << 20;
}

/// What CUDA loads of its modules when the first kernel is launched.
constexpr size_t kModules = size_t{200} << 20;

struct Memory {
  size_t held = 0;
  bool has_modules = false;
  std::map<const std::byte*, size_t> pinned;
};

Memory& memory() {
  static Memory only;
  return only;
}

bool is_pinned(const void* address, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(address);
  auto after = memory().pinned.upper_bound(begin);
  if (after == memory().pinned.begin()) return false;
  --after;
  return begin + bytes <= after->first + after->second;
}

/// CUDA waits for the device before it frees, which hides a premature free; this reports one.
cudaError_t expect_unused(const void* begin, size_t bytes, const char* call) {
  const std::string user = Streams::all().user_of(begin, bytes);
  Streams::all().finish_all();
  if (user.empty()) return cudaSuccess;
  break_device(fmt::format("{} of memory that an enqueued {} works on", call, user));
  return cudaErrorInvalidValue;
}

/// A copy of memory that is not pinned is done before the call returns on a GPU, or shortly after: the caller
/// must wait for it at once.
cudaError_t note_unpinned(cudaStream_t stream) {
  if (stream == nullptr) return cudaSuccess;
  if (stream->capture != nullptr) {
    stream->is_capture_valid = false;
    refuse("a copy of memory that is not pinned while the stream is captured");
    return cudaErrorStreamCaptureUnsupported;
  }
  stream->has_unpinned_copy = true;
  return cudaSuccess;
}

}  // namespace

cudaError_t trainer::standin::load_modules() {
  if (memory().has_modules) return cudaSuccess;
  if (kModules > device_bytes() - memory().held)
    return refused(cudaErrorMemoryAllocation, "no memory is left for the kernels' modules");
  memory().held += kModules;
  memory().has_modules = true;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** address, size_t bytes) {
  return uncaptured_call(fmt::format("cudaMalloc {}", bytes), [&] {
    *address = nullptr;
    if (bytes > device_bytes() - memory().held) return cudaErrorMemoryAllocation;
    *address = trainer::emulation::allocate_device(bytes);
    if (*address == nullptr) return cudaErrorMemoryAllocation;
    memory().held += bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaFree(void* address) {
  return uncaptured_call("cudaFree", [&] {
    if (address == nullptr) return cudaSuccess;
    const size_t bytes = trainer::emulation::allocated_bytes(address);
    if (bytes == 0) return cudaErrorInvalidValue;
    const cudaError_t status = expect_unused(address, bytes, "cudaFree");
    memory().held -= bytes;
    trainer::emulation::free_device(address);
    return status;
  });
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  return uncaptured_call(fmt::format("cudaHostAlloc {}", bytes), [&] {
    *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (*address == nullptr) return cudaErrorMemoryAllocation;
    memory().pinned[static_cast<std::byte*>(*address)] = bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void* address) {
  return uncaptured_call("cudaFreeHost", [&] {
    const auto found = memory().pinned.find(static_cast<std::byte*>(address));
    if (found == memory().pinned.end()) return address == nullptr ? cudaSuccess : cudaErrorInvalidValue;
    const cudaError_t status = expect_unused(address, found->second, "cudaFreeHost");
    memory().pinned.erase(found);
    std::free(address);
    return status;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return runtime_call("cudaMemGetInfo", [&] {
    *total = device_bytes();
    *free = device_bytes() - memory().held;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return runtime_call(fmt::format("cudaMemcpyAsync {}", bytes), [&] {
    const bool to_device = kind != cudaMemcpyDeviceToHost, from_device = kind != cudaMemcpyHostToDevice;
    if ((to_device && !is_allocated(to, bytes)) || (from_device && !is_allocated(from, bytes))) {
      refuse("a copy from or to device memory that is not allocated");
      return cudaErrorInvalidValue;
    }
    Item item{.name = "cudaMemcpyAsync"};
    item.work = [=] {
      std::memmove(to, from, bytes);
      if (to_device) mark_written(to, bytes);
    };
    const void* host = !to_device ? to : !from_device ? from : nullptr;
    const bool unpinned = host != nullptr && !is_pinned(host, bytes);
    if (!unpinned) item.ranges = {{to, bytes}, {from, bytes}};
    const cudaError_t status = enqueue(stream, std::move(item));
    return status == cudaSuccess && unpinned ? note_unpinned(stream) : status;
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return runtime_call(fmt::format("cudaMemsetAsync {}", bytes), [&] {
    const auto work = [=] {
      std::memset(to, value, bytes);
      mark_written(to, bytes);
    };
    return enqueue(stream, {.name = "cudaMemsetAsync", .work = work});
  });
}
