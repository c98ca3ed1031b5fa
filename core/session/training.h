// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/error.h"
#include "core/engine/backend.h"
#include "core/host/log.h"
#include "core/host/stop.h"
#include "core/host/time_limit.h"
#include "core/recipe/job.h"
#include "core/run/run_directory.h"
#include "core/session/membership.h"
#include "core/session/start.h"

namespace trainer {

/// The context that all parts of a run share.
struct RunParts {
  const Backend& backend;
  const Job& job;
  const Tuning& tuning;
  const Start& start;
  const Membership& membership;
  RunDirectory& directory;
  StopSignals& signals;
  TimeLimit& limit;
  Progress& progress;
  Log& log;
};

/// Trains on rank 0, in the directory that it has locked, and writes all files. Returns the exit code: done
/// or requeue.
ExitCode train(const RunParts& run, int64_t profiled_steps);

/// Trains on another rank, which writes nothing.
ExitCode follow(const Backend& backend, const Job& job, const Start& start, const Membership& membership,
                StopSignals& signals, Log& log, int64_t profiled_steps);

}  // namespace trainer
