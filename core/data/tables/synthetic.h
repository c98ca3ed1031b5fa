// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/base/shape.h"
#include "core/data/source.h"

namespace trainer {

/// Made-up rows, or windows of them, with numbers of this shape. Targets are sums of some of them, and labels
/// say which of `classes` sums is the largest; `label_sets`: targets are 1 where a sum is above 0, else 0.
/// Categories are all the first one, as no table says how many there are.
std::unique_ptr<DataSource> make_synthetic_features(uint64_t seed, Split split, int64_t size, Shape shape,
                                                    int64_t classes, bool label_sets);

/// Of the targets of such rows, which are in units of their own.
TargetSpread synthetic_spread(uint64_t seed, Split split, int64_t size, const Shape& shape, int64_t targets);

}  // namespace trainer
