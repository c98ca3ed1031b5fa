// SPDX-License-Identifier: Apache-2.0
#include "core/base/checksum.h"

#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming): the library's word
#include <xxhash.h>

namespace trainer {

uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace trainer
