// SPDX-License-Identifier: Apache-2.0
// Loaded before a program (LD_PRELOAD): counts its calls that concern files whose path holds FAULT_PATH, and
// at call FAULT_AT does as FAULT_ACTION says: kill (before the call), stall (for ever), short (half of a
// write), or an errno's number. FAULT_CALLS: names of the calls to count; FAULT_ALWAYS: the later ones too;
// FAULT_LOG: a line for each call, and FAULT_LOG.data what was written.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string>

namespace {

constexpr size_t kMostFiles = 4096;

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// In seconds.
std::string now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::to_string(static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec));
}

/// What the calls so far have come to. Never destroyed: threads may write until the very end.
class Faults {
 public:
  static Faults& instance() {
    static auto* faults = new Faults;
    return *faults;
  }

  /// Descriptors are known by the path that they were opened with.
  void opened(int fd, const std::string& path) {
    const std::lock_guard lock(mutex_);
    if (fd >= 0 && static_cast<size_t>(fd) < kMostFiles) paths_[static_cast<size_t>(fd)] = path;
  }
  std::string path_of(int fd) {
    const std::lock_guard lock(mutex_);
    return fd >= 0 && static_cast<size_t>(fd) < kMostFiles ? paths_[static_cast<size_t>(fd)] : std::string();
  }

  /// 0: go on; > 0: fail with this errno; -1: write half.
  int before(const char* call, const std::string& path, const std::string& detail, const void* data = nullptr,
             size_t bytes = 0) {
    std::unique_lock lock(mutex_);
    if (path_.empty() || path.find(path_) == std::string::npos) return 0;
    if (!calls_.empty() && ("," + calls_ + ",").find("," + std::string(call) + ",") == std::string::npos)
      return 0;
    ++count_;
    const bool hit = at_ > 0 && (count_ == at_ || (always_ && count_ > at_));
    log(std::to_string(count_) + "\t" + call + "\t" + path + "\t" + detail + "\t" + (hit ? action_ : "") +
        "\t" + now() + "\n");
    if (data_ >= 0 && bytes > 0) static_cast<void>(!write_(data_, data, bytes));
    if (!hit) return 0;
    if (action_ == "kill") ::kill(::getpid(), SIGKILL);
    lock.unlock();
    while (action_ == "stall") ::pause();
    return action_ == "short" ? -1 : std::atoi(action_.c_str());
  }

 private:
  Faults() {
    if (setting("FAULT_LOG").empty()) return;
    log_ = append_to(setting("FAULT_LOG"));
    data_ = append_to(setting("FAULT_LOG") + ".data");
  }
  static int append_to(const std::string& path) {
    return next<int(const char*, int, ...)>("open")(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                                                    0666);
  }
  void log(const std::string& line) const {
    if (log_ >= 0) static_cast<void>(!write_(log_, line.data(), line.size()));
  }

  ssize_t (*write_)(int, const void*, size_t) = next<ssize_t(int, const void*, size_t)>("write");
  std::mutex mutex_;
  std::array<std::string, kMostFiles> paths_;
  std::string path_ = setting("FAULT_PATH"), calls_ = setting("FAULT_CALLS"),
              action_ = setting("FAULT_ACTION");
  bool always_ = !setting("FAULT_ALWAYS").empty();
  long at_ = std::atol(setting("FAULT_AT").c_str()), count_ = 0;
  int log_ = -1, data_ = -1;
};

int failed(int error) {
  errno = error;
  return -1;
}

/// A path as the program named it, or below the directory that `directory` was opened with.
std::string full_path(int directory, const char* path) {
  if (directory == AT_FDCWD || path[0] == '/') return path;
  return Faults::instance().path_of(directory) + "/" + path;
}

template <class Open>
int open_with(const std::string& path, int flags, Open open) {
  const int error = Faults::instance().before("open", path, std::to_string(flags));
  if (error > 0) return failed(error);
  const int fd = open();
  Faults::instance().opened(fd, path);
  return fd;
}

mode_t mode_of(int flags, va_list list) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
}

/// Calls that either happen or fail.
template <class Call>
int call_unless_failed(const char* name, const std::string& path, const std::string& detail, Call call) {
  const int error = Faults::instance().before(name, path, detail);
  return error > 0 ? failed(error) : call();
}

int open_by_name(const char* symbol, const char* path, int flags, mode_t mode) {
  return open_with(path, flags, [&] { return next<int(const char*, int, ...)>(symbol)(path, flags, mode); });
}

int open_below(const char* symbol, int directory, const char* path, int flags, mode_t mode) {
  return open_with(full_path(directory, path), flags, [&] {
    return next<int(int, const char*, int, ...)>(symbol)(directory, path, flags, mode);
  });
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_by_name("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_by_name("open64", path, flags, mode);
}

int openat(int directory, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_below("openat", directory, path, flags, mode);
}

int openat64(int directory, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_below("openat64", directory, path, flags, mode);
}

ssize_t write(int fd, const void* bytes, size_t count) {
  static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  Faults& faults = Faults::instance();
  const int error = faults.before("write", faults.path_of(fd), std::to_string(count), bytes, count);
  if (error > 0) return failed(error);
  return real(fd, bytes, error < 0 && count > 1 ? count / 2 : count);
}

ssize_t pread(int fd, void* bytes, size_t count, off_t offset) {
  static auto* const real = next<ssize_t(int, void*, size_t, off_t)>("pread");
  Faults& faults = Faults::instance();
  const int error = faults.before("pread", faults.path_of(fd), std::to_string(count));
  if (error > 0) return failed(error);
  return real(fd, bytes, error < 0 && count > 1 ? count / 2 : count, offset);
}

int fsync(int fd) {
  static auto* const real = next<int(int)>("fsync");
  return call_unless_failed("fsync", Faults::instance().path_of(fd), "", [&] { return real(fd); });
}

int fdatasync(int fd) {
  static auto* const real = next<int(int)>("fdatasync");
  return call_unless_failed("fdatasync", Faults::instance().path_of(fd), "", [&] { return real(fd); });
}

/// Linux closes the descriptor even where it says that this failed.
int close(int fd) {
  static auto* const real = next<int(int)>("close");
  Faults& faults = Faults::instance();
  const int error = faults.before("close", faults.path_of(fd), "");
  faults.opened(fd, "");
  const int result = real(fd);
  return error > 0 ? failed(error) : result;
}

int ftruncate(int fd, off_t length) noexcept {
  return call_unless_failed("ftruncate", Faults::instance().path_of(fd), std::to_string(length),
                            [&] { return next<int(int, off_t)>("ftruncate")(fd, length); });
}

int rename(const char* from, const char* to) noexcept {
  return call_unless_failed("rename", from, to,
                            [&] { return next<int(const char*, const char*)>("rename")(from, to); });
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to,
              unsigned flags) noexcept {
  return call_unless_failed("exchange", full_path(from_directory, from), full_path(to_directory, to), [&] {
    return next<int(int, const char*, int, const char*, unsigned)>("renameat2")(from_directory, from,
                                                                                to_directory, to, flags);
  });
}

int mkdir(const char* path, mode_t mode) noexcept {
  return call_unless_failed("mkdir", path, "",
                            [&] { return next<int(const char*, mode_t)>("mkdir")(path, mode); });
}

int unlink(const char* path) noexcept {
  return call_unless_failed("unlink", path, "", [&] { return next<int(const char*)>("unlink")(path); });
}

int unlinkat(int directory, const char* path, int flags) noexcept {
  return call_unless_failed(
      (flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", full_path(directory, path), "",
      [&] { return next<int(int, const char*, int)>("unlinkat")(directory, path, flags); });
}

int rmdir(const char* path) noexcept {
  return call_unless_failed("rmdir", path, "", [&] { return next<int(const char*)>("rmdir")(path); });
}

}  // extern "C"
