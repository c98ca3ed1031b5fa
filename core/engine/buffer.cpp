// SPDX-License-Identifier: Apache-2.0
#include "core/engine/buffer.h"

#include <sys/mman.h>

#include <cstdlib>

#include "core/base/error.h"
#include "core/base/units.h"

namespace trainer {

Buffer allocate_host(int64_t bytes) {
  constexpr int64_t kCacheLine = 64, kHugePage = int64_t{2} << 20;
  // Below two huge pages the alignment costs more memory than fewer TLB misses are worth.
  const bool huge = bytes >= 2 * kHugePage;
  void* data = nullptr;
  const auto alignment = static_cast<size_t>(huge ? kHugePage : kCacheLine);
  // An empty buffer still gets an address, so that sub-arrays of it can be formed.
  const auto size = static_cast<size_t>(bytes == 0 ? kCacheLine : bytes);
  if (bytes < 0 || ::posix_memalign(&data, alignment, size) != 0) {
    throw Error(ExitCode::out_of_memory, "out of host memory: requested " + human_bytes(bytes) +
                                             "; lower training.micro_batch_size or use a machine with more");
  }
  // Advice only: a kernel without transparent huge pages refuses it, and nothing is lost but speed.
  if (huge) static_cast<void>(::madvise(data, size, MADV_HUGEPAGE));
  return Buffer(data, bytes, [](void* pointer) { std::free(pointer); });
}

}  // namespace trainer
