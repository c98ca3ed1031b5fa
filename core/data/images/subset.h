// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "core/data/images/source.h"

namespace trainer {

/// These samples of a source, in this order. `excluded`: those that data.exclude leaves out of the whole,
/// which the fingerprint tells.
std::unique_ptr<ImageSource> take_samples(std::unique_ptr<ImageSource> source, std::vector<int64_t> samples,
                                          std::vector<int64_t> excluded = {});

}  // namespace trainer
