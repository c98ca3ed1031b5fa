// SPDX-License-Identifier: Apache-2.0
#include "core/base/checksum.h"

#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming): the library's word
#include <xxhash.h>

namespace trainer {

struct Checksum::State {
  XXH3_state_t xxh;
};

uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Checksum::Checksum() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->xxh);
}

Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}

uint64_t Checksum::value() const {
  return XXH3_64bits_digest(&state_->xxh);
}

}  // namespace trainer
