// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/data/source.h"
#include "core/recipe/run_spec.h"

namespace trainer {

/// Of labels, n / (k * count) for each of the network's classes, as scikit-learn's `balanced`: n labels of k
/// classes; 1 for a class without any. Labels that are no classes do not count.
std::vector<double> balanced_weights(std::span<const int32_t> labels, int64_t classes);

/// Throws Error (exit 78) at the loss if it takes one label for each image and the split has sets of labels,
/// or the reverse.
void require_labelling(const RunSpec& run, Split split, bool has_label_sets);

/// Throws Error (exit 78) at the layer that gives the network its number of outputs, if the split's data
/// is known to have another number of classes.
void require_same_class_count(const RunSpec& run, Split split, const SourceInfo& info);

/// Throws Error (exit 78) if a table has other columns than the network's inputs, or more categories than an
/// embedding of them.
void require_columns(const RunSpec& run, const SourceInfo& info);

/// A warning about training labels that use fewer outputs than the network has. It applies if only the labels
/// show how many classes there are: a part of a set may lack the last ones.
std::optional<std::string> unused_outputs(const RunSpec& run, const DataSource& train);

}  // namespace trainer
