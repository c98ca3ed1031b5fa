// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/config/file_path.h"
#include "core/run/run_identity.h"
#include "core/run/run_state.h"
#include "core/storage/checkpoint.h"

namespace trainer {

/// The point where a run resumes: a checkpoint with every byte verified.
struct ResumePoint {
  std::filesystem::path checkpoint;
  RunState state;
  std::vector<std::filesystem::path> skipped = {};  ///< newer ones
};

/// Called with the reason for each skipped checkpoint.
using Warn = std::function<void(const std::string&)>;

/// Records below `root` that the ranks' weights were found to differ. Until the next save, a resume then
/// prefers checkpoints whose weights the ranks compared before saving. Throws Error (exit 74).
void note_difference(const std::filesystem::path& root, const std::string& text);
void forget_difference(const std::filesystem::path& root);

/// Verifies every byte of a checkpoint. Throws DamageError if it is damaged, else Error: exit 74 if it
/// cannot be read, 65 if it is of another version or does not match its name.
ResumePoint open_checkpoint(const std::filesystem::path& path);

/// The state in a checkpoint, verified alone. Throws as open_checkpoint.
RunState read_state(const std::filesystem::path& checkpoint, const Manifest& manifest);

/// The newest intact checkpoint below `root`; damaged ones are skipped. Nothing if there is none. Throws as
/// open_checkpoint for one that may be intact: no run starts after it.
std::optional<ResumePoint> newest_checkpoint(const std::filesystem::path& root, const Warn& warn);

/// A checkpoint, or the newest intact one in a run's directory. Throws Error (exit 65) if there is none, and
/// as newest_checkpoint.
ResumePoint checkpoint_at(const FilePath& given, const Warn& warn);

/// The keys in which the run of a checkpoint differs from `here`, those in `allowed` left out. Throws Error
/// (exit 65) if the checkpoint does not contain them.
std::vector<Difference> differences_from(const ResumePoint& point, const RunIdentity& here,
                                         const std::vector<std::string>& allowed = {});

/// Where checkpoints are in a run's directory.
std::filesystem::path checkpoint_root(const std::filesystem::path& run);

/// A sentence for each fact that differs from the checkpoint's: the last bits may then differ.
std::vector<std::string> changed_facts(const std::map<std::string, std::string>& there,
                                       const std::map<std::string, std::string>& here);

}  // namespace trainer
