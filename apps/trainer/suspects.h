// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "apps/trainer/checked_data.h"
#include "core/host/stop.h"

namespace trainer {

/// The `count` samples of the runs' validation splits whose label is least probable under the networks that
/// did not train on them, the least probable first: the self-confidence of Northcutt et al., "Confident
/// learning", 2021. A sample in the validation of several runs has the mean of their probabilities. Throws
/// Error: exit 64 if a directory is no run, 78 if its network does not classify images with one label each.
CheckList suspects_of(const std::vector<std::string>& runs, int64_t count, StopSignals& signals);

}  // namespace trainer
