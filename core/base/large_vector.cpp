// SPDX-License-Identifier: Apache-2.0
#include "core/base/large_vector.h"

#include <sys/mman.h>

namespace trainer {

void* allocate_aligned(size_t bytes) {
  constexpr size_t kCacheLine = 64, kHugePage = size_t{2} << 20;
  // Below two huge pages the alignment costs more memory than fewer TLB misses are worth.
  const bool huge = bytes >= 2 * kHugePage;
  void* data = nullptr;
  if (::posix_memalign(&data, huge ? kHugePage : kCacheLine, bytes) != 0) return nullptr;
  // Advice only: a kernel without transparent huge pages refuses it, and nothing is lost but speed.
  if (huge) static_cast<void>(::madvise(data, bytes, MADV_HUGEPAGE));
  return data;
}

}  // namespace trainer
