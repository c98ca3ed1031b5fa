// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "core/config/file_path.h"
#include "core/run/run_state.h"

namespace trainer {

/// Where a run resumes: a checkpoint whose every byte has been verified.
struct ResumePoint {
  std::filesystem::path checkpoint;
  RunState state;
};

/// Called with the reason for each skipped checkpoint.
using Warn = std::function<void(const std::string&)>;

/// Notes below `root` that the ranks' weights were found to differ. Until the next save, a resume then
/// prefers checkpoints before whose save the ranks compared them. Throws Error (exit 74).
void note_difference(const std::filesystem::path& root, const std::string& text);
void forget_difference(const std::filesystem::path& root);

/// The newest intact checkpoint below `root`; damaged ones are skipped. Nothing if there is none.
std::optional<ResumePoint> newest_checkpoint(const std::filesystem::path& root, const Warn& warn);

/// A checkpoint, or the newest intact one in a run's directory. Throws Error (exit 65) if there is none.
ResumePoint checkpoint_at(const FilePath& given, const Warn& warn);

/// Where checkpoints are in a run's directory.
std::filesystem::path checkpoint_root(const std::filesystem::path& run);

/// A sentence for each fact that differs from where the checkpoint was made: the last bits may then differ.
std::vector<std::string> changed_facts(const std::map<std::string, std::string>& there,
                                       const std::map<std::string, std::string>& here);

}  // namespace trainer
