// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/data/images/source.h"

namespace trainer {

/// Made-up pictures that a network can learn: each class has a coarse random texture, each sample adds noise.
/// A pure function of (seed, split, index); holds no samples in memory. Gives label maps as well.
std::unique_ptr<ImageSource> make_synthetic(uint64_t seed, Split split, int64_t size, const Shape& shape,
                                            int64_t classes);

}  // namespace trainer
