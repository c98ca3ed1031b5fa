// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/data/images/source.h"

namespace trainer {

/// The weight of each sample of a source from a file: a table with the columns file and weight, which names
/// each sample once, or one weight on each line in the order of the samples. Throws Error (exit 65) with file
/// and line.
std::vector<double> read_sample_weights(const std::string& path, const ImageSource& source);
/// The same of the file's text.
std::vector<double> parse_sample_weights(std::string_view text, const std::string& path,
                                         const ImageSource& source);

/// Weights that give each label the same sum: 1 / (samples of the label).
std::vector<double> balancing_weights(const std::vector<int32_t>& labels);

}  // namespace trainer
