// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/data/source.h"

namespace trainer {

/// Made-up text of `size` windows of `length` tokens below `vocabulary`, which a network can learn. A pure
/// function of (seed, split, index); holds no samples in memory.
std::unique_ptr<DataSource> make_synthetic_tokens(uint64_t seed, Split split, int64_t size, int64_t length,
                                                  int64_t vocabulary);

}  // namespace trainer
