// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "core/engine/backend.h"
#include "core/engine/communicator.h"
#include "core/engine/tuning.h"
#include "core/recipe/run_spec.h"
#include "core/run/resume.h"

namespace trainer {

/// The file in a run's directory that keeps what runtime.autotune found.
constexpr const char* kTuningFile = "algorithms.json";

/// The device to open, and why this one.
struct DeviceChoice {
  std::string type;        ///< cpu or cuda
  std::string reason;      ///< "device.type=auto: no GPU was found"
  int64_t threads = 0;     ///< for recipes that leave device.threads open; 0: not said
  int64_t local_rank = 0;  ///< among those of the run on this host, which share its GPUs
};

/// What device.type=auto means: the device that the checkpoint was made on, else cuda where there is a GPU,
/// else cpu. Only with `must_keep` is a checkpoint's GPU chosen where there is none.
DeviceChoice choose_device(const DeviceSection& section, const ResumePoint* from = nullptr,
                           bool must_keep = true);

/// Opens the backend that was chosen. With runtime.autotune it follows `tuning` and adds to it, so that must
/// outlive it, and so must the ranks, which are null if the process is alone.
using OpenDevice = std::function<Backend(const RunSpec& spec, Tuning& tuning, const DeviceChoice& device,
                                         Communicator* ranks)>;

/// Tells the planner the run's precision. Throws Error (exit 78) at training.precision where it cannot.
void set_precision(const RunSpec& spec, Planner& planner);

/// What to warn of where the device has failed to capture a step, for the reason given.
std::string uncaptured(const std::string& reason);

/// What an earlier start of the same run found, which stands in the checkpoint that it goes on from too;
/// empty without runtime.autotune.
Tuning earlier_tuning(const RunSpec& spec, const ResumePoint* from = nullptr);

}  // namespace trainer
