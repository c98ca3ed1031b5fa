// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/host/progress.h"
#include "core/host/stop.h"
#include "core/recipe/run_spec.h"
#include "core/session/device.h"

namespace trainer {

struct SessionRequest {
  std::vector<std::string> disabled_passes;
  int64_t profiled_steps = 0;  ///< into trace.json; 0: none
};

/// Trains a recipe in its run's directory, from its newest checkpoint on, until its steps are done or it must
/// stop. Returns the exit code: done, or requeue if the same call can resume it. Throws Error if the run
/// cannot start or has failed; the directory's status then says so too.
ExitCode run_session(std::shared_ptr<const Recipe> recipe, const OpenDevice& open_device,
                     StopSignals& signals, Progress& progress, const SessionRequest& request = {});

}  // namespace trainer
