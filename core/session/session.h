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

struct SessionOptions {
  std::vector<std::string> disabled_passes;
  int64_t profiled_steps = 0;  ///< into trace.json; 0: none
};

/// Trains a recipe in its run's directory, from its newest checkpoint on, until the steps are done or the run
/// is to stop. Returns the process's exit code: done, or requeue where the same call goes on later. Throws
/// Error where the run cannot begin or has failed; the directory's status says so too.
ExitCode run_session(std::shared_ptr<const Recipe> recipe, const OpenDevice& open_device,
                     StopSignals& signals, Progress& progress, const SessionOptions& options = {});

}  // namespace trainer
