// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/data/images/source.h"

namespace trainer {

/// The part of a source that (fraction, seed) sets aside for validation, or the rest; in the stored order.
/// Throws Error (exit 65) if the source has only one sample.
std::unique_ptr<ImageSource> take_split(std::unique_ptr<ImageSource> source, Split split, double fraction,
                                        uint64_t seed);

}  // namespace trainer
