// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/tasks/task.h"

namespace trainer {

/// The share of samples (or of their tokens or pixels) with their label among the largest logits: "top1",
/// "top5".
const std::vector<Metric>& top_metrics();
const std::vector<MetricSum>& top_sums();
/// These, and those of the confusion matrix.
const std::vector<Metric>& class_metrics();

/// softmax(logits), in double.
std::vector<double> probabilities(std::span<const float> logits);
/// Replaces logits by others with the mean of both probabilities.
void average_probabilities(std::span<float> logits, std::span<const float> others);
/// The classes of the `count` largest logits, the largest first; among equal ones the lower class.
std::vector<size_t> largest(std::span<const float> logits, size_t count);

}  // namespace trainer
