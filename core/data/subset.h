// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/data/source.h"

namespace trainer {

/// How many of `size` samples a fraction of them sets aside for validation: at least one, and not all.
int64_t validation_count(int64_t size, double fraction);

/// The part of a source that (fraction, seed) sets aside for validation, or the rest; in the stored order.
/// Throws Error (exit 65) where the source has but one sample.
std::unique_ptr<DataSource> take_split(std::unique_ptr<DataSource> source, Split split, double fraction,
                                       uint64_t seed);

}  // namespace trainer
