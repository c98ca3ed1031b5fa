// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/process_group.h"
#include "core/recipe/run_spec.h"
#include "core/session/session.h"

namespace trainer {

/// The settings that must be equal on all ranks before they start: every key of the recipe, the options of
/// the command, and the program's version.
RunIdentity shared_settings(const RunSpec& spec, const SessionRequest& request);

/// The settings in which a rank differs from rank 0, `first`. Keys that concern one rank alone are left out.
std::vector<Difference> setting_differences(const RunIdentity& first, const RunIdentity& own);

/// Throws Error (exit 78) on a rank that differs from rank 0: with the key, both values, both hosts and the
/// place. Every rank calls it.
void require_same_settings(const RunSpec& spec, const SessionRequest& request, ProcessGroup& group);

}  // namespace trainer
