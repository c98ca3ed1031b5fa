// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/trainer/arguments.h"
#include "apps/trainer/check_list.h"
#include "core/host/stop.h"

namespace trainer {

/// The samples of the runs' validation splits, `suspects` of them, whose label is least probable under the
/// networks that did not train on them, the least probable first: the self-confidence of Northcutt et al.,
/// "Confident learning", 2021. Of a table's targets that are numbers, those whose predictions are farthest
/// off, in deviations. A sample in the validation of several runs has the mean of their predictions. Throws
/// Error: exit 64 if a directory is no run, 78 if its network predicts neither one class nor numbers of a
/// table.
CheckList suspects_of(const CheckArguments& arguments, StopSignals& signals);

}  // namespace trainer
