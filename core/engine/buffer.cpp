// SPDX-License-Identifier: Apache-2.0
#include "core/engine/buffer.h"

#include <cstdlib>

#include "core/base/error.h"
#include "core/base/large_vector.h"
#include "core/base/units.h"

namespace trainer {

Buffer allocate_host(int64_t bytes) {
  // An empty buffer still gets an address, so that sub-arrays of it can be formed.
  void* const data = bytes < 0 ? nullptr : allocate_aligned(bytes == 0 ? 1 : static_cast<size_t>(bytes));
  if (data == nullptr) {
    throw Error(ExitCode::out_of_memory, "out of host memory: requested " + human_bytes(bytes) +
                                             "; lower training.micro_batch_size or use a machine with more");
  }
  return Buffer(data, bytes, [](void* pointer) { std::free(pointer); });
}

}  // namespace trainer
