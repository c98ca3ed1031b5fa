// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/data/source.h"

namespace trainer {

/// How many of `size` samples a fraction of them sets aside for validation: at least one, and not all. Throws
/// Error (exit 65) if there is only one sample.
int64_t validation_count(int64_t size, double fraction);

/// The numbers of the samples that (fraction, seed) sets aside for validation, or of the rest; ascending.
std::vector<int64_t> split_samples(int64_t size, Split split, double fraction, uint64_t seed);

}  // namespace trainer
