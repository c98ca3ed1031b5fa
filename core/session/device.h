// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "core/engine/backend.h"
#include "core/engine/process_group.h"
#include "core/engine/tuning.h"
#include "core/host/limits.h"
#include "core/recipe/run_spec.h"
#include "core/run/resume.h"

namespace trainer {

/// The file in a run's directory that keeps what runtime.autotune found.
constexpr const char* kTuningFile = "algorithms.json";

/// The device to open, and the reason.
struct DeviceChoice {
  std::string type;        ///< cpu or cuda
  std::string reason;      ///< "device.type=auto: no GPU was found"
  Limit threads;           ///< of a CPU
  int64_t local_rank = 0;  ///< among those of the run on this host, which share its GPUs
};

/// Resolves device.type=auto: the device of the checkpoint, else cuda if there is a GPU, else cpu. A
/// checkpoint's GPU is chosen without any GPU only with `must_keep`. The threads are device.threads, those of
/// a checkpoint by one process, or those that this process may use.
DeviceChoice choose_device(const DeviceSection& section, const ResumePoint* from = nullptr,
                           bool must_keep = true);

/// device.threads, or those that this process may use, one of `processes` on this host.
Limit threads_of(const DeviceSection& section, int64_t processes);

/// The limits of this process, one of `processes` on this host, for the first lines of a run. On a CPU the
/// threads are those chosen.
std::string host_text(const DeviceChoice& choice, int64_t processes);

/// Opens the backend that was chosen. It follows `tuning` and adds to it, so that must outlive it, and so
/// must `group`, which is null if the process is alone.
using OpenDevice = std::function<Backend(const RunSpec& spec, Tuning& tuning, const DeviceChoice& device,
                                         ProcessGroup* group)>;

/// Sets the planner's precision. Throws Error (exit 78) at training.precision if the device does not support
/// it.
void set_precision(const RunSpec& spec, Planner& planner);

/// The tuning of an earlier start of the same run, which its checkpoint holds too.
Tuning earlier_tuning(const RunSpec& spec, const ResumePoint* from = nullptr);

}  // namespace trainer
