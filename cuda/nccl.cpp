// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "core/base/error.h"

namespace trainer::cuda {
namespace {

constexpr const char* kLibrary = "libnccl.so.2";

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(
      ExitCode::no_device,
      fmt::format("several ranks on GPUs need NCCL: {}; install NCCL 2.18 or newer, and set LD_LIBRARY_PATH "
                  "to the folder of {}",
                  reason, kLibrary));
}

/// The library that the loader finds, else the one that this was built with.
void* open_library() {
  for (const char* name : {kLibrary, TRAINER_NCCL_LIBRARY}) {
    if (*name == '\0') continue;
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL); handle != nullptr) return handle;
  }
  refuse(dlerror());
}

template <class Function>
void find(void* handle, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr) refuse(fmt::format("{} has no {}", kLibrary, name));
}

Nccl load() {
  Nccl found;
  void* handle = open_library();
  find(handle, found.get_version, "ncclGetVersion");
  find(handle, found.get_unique_id, "ncclGetUniqueId");
  find(handle, found.init_rank, "ncclCommInitRank");
  find(handle, found.split, "ncclCommSplit");
  find(handle, found.abort, "ncclCommAbort");
  find(handle, found.get_async_error, "ncclCommGetAsyncError");
  find(handle, found.all_reduce, "ncclAllReduce");
  find(handle, found.broadcast, "ncclBroadcast");
  find(handle, found.all_gather, "ncclAllGather");
  find(handle, found.reduce_scatter, "ncclReduceScatter");
  find(handle, found.reduce, "ncclReduce");
  find(handle, found.send, "ncclSend");
  find(handle, found.receive, "ncclRecv");
  find(handle, found.group_start, "ncclGroupStart");
  find(handle, found.group_end, "ncclGroupEnd");
  find(handle, found.error_string, "ncclGetErrorString");
  find(handle, found.last_error, "ncclGetLastError");
  return found;
}

}  // namespace

const Nccl& nccl() {
  static const Nccl only = load();
  return only;
}

}  // namespace trainer::cuda
