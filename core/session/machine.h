// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "core/engine/backend.h"
#include "core/engine/executable.h"
#include "core/recipe/feed.h"

namespace trainer {

/// The parts that compute a run's steps. They are the same on every rank, except for its share of the
/// samples.
struct Machine {
  Feed train, validation;
  std::unique_ptr<Executable> executable;
};

/// Opens the samples, takes the device's memory, and draws the initial weights. `list`: where unreadable
/// samples are listed; empty: nowhere. Throws Error as open_feed; exit 71 if another process has taken the
/// memory meanwhile, with what would fit now.
Machine open_machine(const Backend& backend, const Job& job, const std::filesystem::path& list);

}  // namespace trainer
