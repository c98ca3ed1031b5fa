// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <string>

namespace trainer::cuda {

/// The functions of libnccl.so.2 that are used. It is opened at run time, and only for several ranks: most
/// machines have none. The used part of its binary interface, which NVIDIA keeps stable, is declared here.
/// Source: NCCL User Guide, "NCCL API"; nccl.h of release 2.18 and newer.
struct Nccl {
  using Result = int;  // 0: success
  struct Comm;
  struct UniqueId {
    std::array<std::byte, 128> bytes;
  };
  static constexpr int kInt8 = 0, kFloat32 = 7, kSum = 0;

  Result (*get_version)(int*) = nullptr;
  Result (*get_unique_id)(UniqueId*) = nullptr;
  Result (*init_rank)(Comm**, int ranks, UniqueId, int rank) = nullptr;
  Result (*split)(Comm*, int color, int key, Comm**, void* settings) = nullptr;
  Result (*abort)(Comm*) = nullptr;
  Result (*get_async_error)(Comm*, Result*) = nullptr;
  Result (*all_reduce)(const void* from, void* to, size_t count, int type, int operation, Comm*,
                       cudaStream_t) = nullptr;
  Result (*broadcast)(const void* from, void* to, size_t count, int type, int root, Comm*,
                      cudaStream_t) = nullptr;
  Result (*all_gather)(const void* from, void* to, size_t count_of_each, int type, Comm*,
                       cudaStream_t) = nullptr;
  Result (*reduce_scatter)(const void* from, void* to, size_t count_of_each, int type, int operation, Comm*,
                           cudaStream_t) = nullptr;
  Result (*reduce)(const void* from, void* to, size_t count, int type, int operation, int root, Comm*,
                   cudaStream_t) = nullptr;
  Result (*send)(const void* from, size_t count, int type, int to, Comm*, cudaStream_t) = nullptr;
  Result (*receive)(void* to, size_t count, int type, int from, Comm*, cudaStream_t) = nullptr;
  Result (*group_start)() = nullptr;
  Result (*group_end)() = nullptr;
  const char* (*error_string)(Result) = nullptr;
  const char* (*last_error)(Comm*) = nullptr;
};

/// Opened once. Throws Error (exit 69) if it is missing, or lacks these functions.
const Nccl& nccl();

/// "2.28.9"
inline std::string nccl_version(const Nccl& library) {
  int number = 0;
  if (library.get_version(&number) != 0) return "of an unknown release";
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

}  // namespace trainer::cuda
