// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/units.h"
#include "core/host/log.h"

namespace trainer {

/// A time as Slurm writes it: "D-HH:MM:SS", "HH:MM:SS" or "MM:SS". Nothing for anything else, as UNLIMITED.
std::optional<TimeSpan> parse_slurm_time(std::string_view text);

/// Whether Slurm has started this process's job before, so that an earlier process of it may still be
/// running.
bool slurm_has_restarted();

/// What Slurm grants this process's job on this host, from the job's variables. Nothing outside a job, for 0
/// (which stands for all there is), and for texts that are no numbers.
struct SlurmLimits {
  std::optional<int64_t> memory;  ///< bytes of all the job's processes here
  std::string memory_name;        ///< SLURM_MEM_PER_NODE or SLURM_MEM_PER_CPU, which sets it
  std::optional<int64_t> cpus_per_task, cpus_on_node;
};
SlurmLimits slurm_limits();

/// The remaining time of this process's Slurm job, from squeue, within `patience`. Nothing outside a job,
/// without a limit, or if it is unknown. Logs the result.
std::optional<TimeSpan> slurm_time_left(Log& log,
                                        std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace trainer
