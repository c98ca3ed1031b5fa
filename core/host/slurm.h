// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "core/base/units.h"
#include "core/host/log.h"

namespace trainer {

/// A time as Slurm writes it: "D-HH:MM:SS", "HH:MM:SS" or "MM:SS". Nothing for anything else, as UNLIMITED.
std::optional<TimeSpan> parse_slurm_time(std::string_view text);

/// Whether Slurm has started this process's job before, so that an earlier process of it may still be
/// running.
bool slurm_has_restarted();

/// The remaining time of this process's Slurm job, from squeue, within `patience`. Nothing outside a job,
/// without a limit, or if it is unknown. Logs the result.
std::optional<TimeSpan> slurm_time_left(Log& log,
                                        std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace trainer
