// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/storage/file.h"
#include "core/train/log.h"
#include "core/train/run_identity.h"

namespace trainer {

/// What makes two runs the same one.
struct RunIdentity {
  std::string mathematics;      ///< the resolved keys that alter the numbers, as YAML; compared as text
  std::string program_version;  ///< recorded, not compared
};

/// The directory of one run, held for this process alone until destroyed unless the run is finished. Throws
/// Error: exit 78 where the directory belongs to another run or to somebody else (nothing in it is touched
/// then), exit 74 where another process works in it or it cannot be used.
class RunDirectory {
 public:
  enum class State {
    fresh,       ///< new or empty
    unfinished,  ///< holds a run of this identity that was stopped
    finished,    ///< holds a run of this identity that is complete: read only
  };

  RunDirectory(const std::filesystem::path& path, const RunIdentity& identity);

  State state() const { return state_; }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(std::string_view name) const { return path_ / name; }

  /// Makes the directory that of a run which starts at step 0: writes its identity and `recipe` (the resolved
  /// recipe as YAML), attaches the log, and empties the metrics of an unfinished run. Not for a finished run.
  void begin(const std::string& recipe, Log& log);

 private:
  State inspect() const;
  void lock();

  std::filesystem::path path_;
  RunIdentity identity_;
  State state_ = State::fresh;
  FileDescriptor lock_;
};

}  // namespace trainer
