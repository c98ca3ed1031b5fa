// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "core/data/images/source.h"

namespace trainer {

/// These samples of a source, in this order.
std::unique_ptr<ImageSource> take_samples(std::unique_ptr<ImageSource> source, std::vector<int64_t> samples);

}  // namespace trainer
