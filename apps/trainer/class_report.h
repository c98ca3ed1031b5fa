// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/tasks/confusion_matrix.h"

namespace trainer {

/// A table with precision, recall, F1 and support of each class, and their means: macro over the classes that
/// are a label or a prediction, weighted by support. Classes without a name have their number. Ends with a
/// line break.
std::string class_report(const ConfusionMatrix& matrix, const std::vector<std::string>& class_names,
                         bool shows_iou = false);

}  // namespace trainer
