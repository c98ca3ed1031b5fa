// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/recipe/job.h"

namespace trainer {

/// Bytes of the device that one rank of a run may take: device.memory, or its part of all there is. A limit
/// of the system below device.memory counts instead. The name is "" if nothing limits the device's own
/// memory.
Limit available_memory(const RunSpec& spec, const Planner& planner);
int64_t available_bytes(const RunSpec& spec, const Planner& planner);

/// Of the process itself, outside of the plan.
int64_t process_bytes(const Job& job);
/// Whether the job needs at most `available` bytes of the device's memory, and so do the other stages of a
/// pipeline, in processes that take `program` bytes themselves.
bool all_stages_fit(const Job& job, const Planner& planner, const JobRequest& request, int64_t program,
                    int64_t available);

/// As make_job, if training.micro_batch_size may be auto. The job's specification then has the largest
/// divisor of the rank's samples with a plan that fits into memory, or 1 if none fits.
Job make_fitting_job(const RunSpec& spec, const Planner& planner, const JobRequest& request = {});

/// The largest smaller micro-batch that divides the rank's samples and has a plan that fits into `available`
/// bytes; 0 if there is none.
int64_t fitting_micro_batch(const Planner& planner, const Job& job, int64_t available);

/// The micro-batch, or else the division, that would fit into `available`, found by planning: lines that
/// begin with a line break.
std::string fitting_advice(const Planner& planner, const Job& job, int64_t available);
/// The budget line by line, and that advice. Only a process that is alone searches for a division.
std::string memory_advice(const Planner& planner, const Job& job, int64_t available);

/// Throws Error (exit 71), with that advice, if the job needs more than device.memory or the device has, or
/// more of the host's memory than this process may hold.
void require_memory(const Planner& planner, const Job& job);

}  // namespace trainer
