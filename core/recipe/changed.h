// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/run/run_settings.h"

namespace trainer {

/// The keys of a run's recipe whose values are not the defaults, by interest; a list is one key. Keys that
/// only name the run are left out.
std::vector<ChangedSetting> changed_settings(const Settings& settings);

}  // namespace trainer
