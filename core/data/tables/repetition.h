// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/data/tables/source.h"

namespace trainer {

/// The error of a prediction that repeats the last value of each window: "mae 1.2, rmse 1.9" in the units of
/// these metrics or, of classes, "top1 0.8000". A missing last value is the one that the network reads
/// instead. Empty if targets are several labels, or if samples are no windows.
std::string repetition_text(const TableSource& source);

}  // namespace trainer
