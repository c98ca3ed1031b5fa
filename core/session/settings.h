// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/communicator.h"
#include "core/recipe/run_spec.h"
#include "core/session/session.h"

namespace trainer {

/// All that the ranks of a run must have alike before they begin: every key of the recipe, the options of the
/// command, and the program's version.
RunIdentity shared_settings(const RunSpec& spec, const SessionOptions& options);

/// In which of them a rank differs from rank 0, `first`. Keys that count for one rank alone are left out.
std::vector<Difference> setting_differences(const RunIdentity& first, const RunIdentity& own);

/// Throws Error (exit 78) on a rank that differs from rank 0: with the key, both values, both hosts and the
/// place. Every rank calls it.
void require_same_settings(const RunSpec& spec, const SessionOptions& options, Communicator& ranks);

}  // namespace trainer
