// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/data/images/source.h"

namespace trainer {

/// How many samples have each label.
using LabelCounts = std::map<int32_t, int64_t>;

/// Of the labels that are known without reading samples; empty if none are. An image with several counts for
/// each.
LabelCounts class_counts(const ImageSource& source);

/// A line that names the classes of training without a sample in validation, or an empty text. `names` may be
/// empty.
std::string unvalidated_classes(const LabelCounts& train, const LabelCounts& validation,
                                const std::vector<std::string>& names);

}  // namespace trainer
