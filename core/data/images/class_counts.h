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

/// The classes of training without a sample in validation: their names, or their numbers if `names` has none.
std::vector<std::string> classes_without_validation(const LabelCounts& train, const LabelCounts& validation,
                                                    const std::vector<std::string>& names);

/// A line that names these classes; an empty text if there are none, or no samples for validation at all.
std::string unvalidated_classes(const LabelCounts& train, const LabelCounts& validation,
                                const std::vector<std::string>& names);

}  // namespace trainer
