// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "core/run/run_state.h"

namespace trainer {

/// Where a run goes on: a checkpoint every byte of which has been verified.
struct ResumePoint {
  std::filesystem::path checkpoint;
  RunState state;
};

/// Told of each checkpoint that is passed over, and why.
using Warn = std::function<void(const std::string&)>;

/// The newest whole checkpoint below `root`; damaged ones are passed over. Nothing where there is none.
std::optional<ResumePoint> newest_checkpoint(const std::filesystem::path& root, const Warn& warn);

/// A checkpoint, or the newest whole one of a run's directory. Throws Error (exit 65) where there is none.
ResumePoint checkpoint_at(const std::filesystem::path& path, const Warn& warn);

/// Where checkpoints are in a run's directory.
std::filesystem::path checkpoint_root(const std::filesystem::path& run);

/// A sentence for each fact that is another here than where the checkpoint was made, so that the last bits
/// may differ.
std::vector<std::string> changed_facts(const std::map<std::string, std::string>& there,
                                       const std::map<std::string, std::string>& here);

}  // namespace trainer
