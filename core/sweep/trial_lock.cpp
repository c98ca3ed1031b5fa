// SPDX-License-Identifier: Apache-2.0
#include "core/sweep/trial_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/sweep/trial_record.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char *kLock = ".lock", *kOwner = ".owner";

fs::path lock_path(const fs::path& sweep, int64_t number, const char* kind) {
  return sweep / (trial_name(number) + kind);
}

/// Whether this process now has the lock of an open file.
bool lock(int file, int kind, const fs::path& path) {
  while (::flock(file, kind | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno == EINTR) continue;
    throw Error(ExitCode::io,
                fmt::format("{}: flock: {}; a sweep needs a file system with locks: choose another "
                            "run.output_dir",
                            one_line(path.string()), std::strerror(errno)));
  }
  return true;
}

/// Nothing if another process has it.
std::optional<FileDescriptor> locked(const fs::path& path) {
  FileDescriptor file = open_regular(path, O_RDWR | O_CREAT, Links::refuse);
  if (!lock(file.get(), LOCK_EX, path)) return std::nullopt;
  return file;
}

bool is_locked(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return false;
  const FileDescriptor file = open_regular(path, O_RDONLY, Links::refuse);
  return !lock(file.get(), LOCK_SH, path);
}

}  // namespace

std::optional<TrialLock> TrialLock::take(const fs::path& sweep, int64_t number) {
  std::optional<FileDescriptor> file = locked(lock_path(sweep, number, kLock));
  if (!file) return std::nullopt;
  std::optional<FileDescriptor> owner = locked(lock_path(sweep, number, kOwner));
  if (!owner) return std::nullopt;
  return TrialLock(*std::move(file), *std::move(owner));
}

bool TrialLock::is_held(const fs::path& sweep, int64_t number) {
  return is_locked(lock_path(sweep, number, kLock));
}

bool TrialLock::is_owned(const fs::path& sweep, int64_t number) {
  return is_locked(lock_path(sweep, number, kOwner));
}

}  // namespace trainer
