// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "core/data/images/source.h"

namespace trainer {

/// These samples of a source, in this order. `excluded`: the samples of the whole source that
/// data.exclude leaves out; they are part of the fingerprint.
std::unique_ptr<ImageSource> take_samples(std::unique_ptr<ImageSource> source, std::vector<int64_t> samples,
                                          std::vector<int64_t> excluded = {});

}  // namespace trainer
