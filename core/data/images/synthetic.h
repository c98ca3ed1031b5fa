// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/data/images/source.h"

namespace trainer {

/// Made-up images that a network can learn: each class has a coarse random texture, each sample adds noise.
/// A pure function of (seed, split, index); holds no samples in memory. Gives label maps as well and, with
/// `label_sets`, each image two labels: its class and the next.
std::unique_ptr<ImageSource> make_synthetic(uint64_t seed, Split split, int64_t size, const Shape& shape,
                                            int64_t classes, bool label_sets = false);

}  // namespace trainer
