// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/host/log.h"
#include "core/run/run_identity.h"
#include "core/run/run_lock.h"
#include "core/storage/held_directory.h"

namespace trainer {

/// The file in it with the secret of the run's ranks, if no launcher passes one on.
constexpr const char* kSecretFile = "ranks.secret";

/// The identity of the run in a directory; nothing if there is none that can be read.
std::optional<RunIdentity> stored_identity(const std::filesystem::path& directory);

/// The directory of one run, locked for this process until destroyed, unless the run is finished. Throws
/// Error: exit 78 if the directory belongs to another run or to somebody else; nothing in it is touched then.
/// Exit 74 if another process works in it or it cannot be used.
class RunDirectory {
 public:
  enum class State {
    fresh,       ///< new or empty
    unfinished,  ///< holds a run of this identity that was stopped
    finished,    ///< holds a run of this identity that is complete: read only
  };

  /// Keys in `allowed` (or below a key in it) may differ from the existing run.
  RunDirectory(const std::filesystem::path& path, const RunIdentity& identity,
               std::vector<std::string> allowed = {});

  /// The state of a directory that may be missing, without touching anything. Throws Error as the constructor
  /// does if it belongs to another run or to somebody else.
  static State look(const std::filesystem::path& path, const RunIdentity& identity,
                    const std::vector<std::string>& allowed);

  State state() const { return state_; }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(std::string_view name) const { return path_ / name; }

  /// Throws Error (exit 74) if the directory is certainly no longer this process's: its path leads
  /// elsewhere, or another process has taken it. Nothing may be written there.
  void require_in_place() const;
  /// The same if that cannot be found out: before a checkpoint gets or loses its name.
  void require_held() const;

  /// Prepares the directory for a run that resumes after `step` (0: starts) and was evaluated last at
  /// `validated`: writes its identity and `recipe` (the resolved recipe as YAML), attaches the log, and
  /// removes later metrics and incomplete files of a killed process. Not for a finished run.
  void begin(const std::string& recipe, int64_t step, int64_t validated, Log& log);

 private:
  struct Unheld {};
  RunDirectory(Unheld, std::filesystem::path path, RunIdentity identity, std::vector<std::string> allowed)
      : path_(std::move(path)), identity_(std::move(identity)), allowed_(std::move(allowed)) {}

  State inspect() const;
  bool require_same(const std::string& text) const;
  std::optional<std::string> loss() const;
  void tidy(int64_t step) const;

  std::filesystem::path path_;
  RunIdentity identity_;
  std::vector<std::string> allowed_;
  State state_ = State::fresh;
  std::optional<RunLock> lock_;
  std::optional<HeldDirectory> held_;  ///< while it is locked
};

}  // namespace trainer
