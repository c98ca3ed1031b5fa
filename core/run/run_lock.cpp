// SPDX-License-Identifier: Apache-2.0
#include "core/run/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <thread>

#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/host/process.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr int kLockAttempts = 20;

/// Shared file systems hold locks of processes on other machines. Hosts count processes from 1, and some
/// share a name: the token distinguishes two starts.
std::string this_start() {
  const std::string host = host_name();
  std::random_device random;
  return fmt::format("{}{}{}\nstart {:08x}{:08x}{:08x}{:08x}\n", ::getpid(), host.empty() ? "" : " on ", host,
                     random(), random(), random(), random());
}

/// The holder, from the file. It is empty between the holder's lock and its entry.
std::string holder_in(const std::string& text) {
  const std::string holder = text.substr(0, text.find('\n'));
  return holder.empty() ? "another process" : "process " + holder;
}

std::string holder_of(const fs::path& lock) {
  return holder_in(read_text(lock, Links::refuse).value_or(""));
}

bool is_same_file(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

}  // namespace

RunLock::RunLock(const fs::path& run)
    : run_(run),
      path_(run / kLockFile),
      fd_(open_regular(path_, O_RDWR | O_CREAT, Links::refuse)),
      text_(this_start()) {
  for (int attempt = 1; ::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0; ++attempt) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) throw io_error(path_, "flock", errno);
    // A process that checks whether the run is held (run_list.cpp) has the lock for some microseconds.
    if (attempt < kLockAttempts) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    throw Error(ExitCode::io,
                fmt::format("run directory {} is in use by {}", one_line(run.string()), holder_of(path_)));
  }
  const int truncated = ::ftruncate(fd_.get(), 0);
  const int error = truncated != 0 ? errno : write_all(fd_.get(), text_);
  if (error != 0) throw io_error(path_, "write", error);
}

std::optional<std::string> RunLock::loss() const {
  struct stat own = {}, there = {};
  if (::fstat(fd_.get(), &own) != 0) throw io_error(path_, "fstat", errno);
  const std::optional<std::string> text = read_text(path_, Links::refuse);
  if (!text) {
    return fmt::format(
        "{} was removed while the run worked there, so that another process could begin: "
        "nothing more was saved; start the same command again",
        one_line(path_.string()));
  }
  if (::stat(path_.c_str(), &there) != 0) throw io_error(path_, "stat", errno);
  if (*text == text_ && is_same_file(own, there)) return std::nullopt;
  return fmt::format(
      "run directory {} was taken over by {}: its lock was removed, or does not reach that host; "
      "nothing more was saved here; let that process finish, or end it and start the same command "
      "again",
      one_line(run_.string()), holder_in(*text));
}

void await_free(const fs::path& run, std::chrono::milliseconds patience, Log& log) {
  const fs::path name = run / kLockFile;
  std::error_code ignored;
  if (!fs::exists(name, ignored)) return;
  const FileDescriptor file = open_regular(name, O_RDONLY, Links::refuse);
  const auto end = std::chrono::steady_clock::now() + patience;
  for (bool is_reported = false; ::flock(file.get(), LOCK_SH | LOCK_NB) != 0; is_reported = true) {
    // Callers that need the lock report all other problems.
    if ((errno != EWOULDBLOCK && errno != EINTR) || std::chrono::steady_clock::now() >= end) return;
    if (!is_reported)
      log.info(fmt::format("waiting for {} to release {}", holder_of(name), one_line(run.string())));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace trainer
