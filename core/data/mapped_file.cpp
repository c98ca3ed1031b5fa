// SPDX-License-Identifier: Apache-2.0
#include "core/data/mapped_file.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/data_file.h"

namespace trainer {

/// A mapping as the handler of SIGBUS sees it.
struct MappedRange {
  const uintptr_t begin;
  std::atomic<uintptr_t> end;  ///< 0: no longer mapped
  std::atomic<bool> is_damaged{false};
  MappedRange* next = nullptr;
};

namespace {

static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<MappedRange*>::is_always_lock_free,
              "a signal's handler may not wait for a lock");

// Signals belong to the process, and so does their handler's data.
std::atomic<MappedRange*> first_range{nullptr};
struct sigaction previous_action;

/// Maps zeros if the file has no bytes there any more, and records it. The thread reads on, and asks
/// later whether its data can be trusted. Other faults end the process as before.
void handle_bus_error(int number, siginfo_t* info, void* /*context*/) {
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (MappedRange* range = first_range.load(); range != nullptr; range = range->next) {
    const uintptr_t end = range->end.load();
    if (info->si_code != BUS_ADRERR || at < range->begin || at >= end) continue;
    range->is_damaged.store(true);  // before another thread can read a zero
    const int problem = errno;
    const uintptr_t page = at & ~(static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)) - 1);
    // The rest of the file, which is worthless now: a page at a time would cause a signal for each.
    const void* zeros = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    errno = problem;
    if (zeros != MAP_FAILED) return;
  }
  ::sigaction(number, &previous_action, nullptr);  // the access is tried again, and fails again
}

/// Another library may have set its own handler since the last file was mapped.
void install_handler() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  struct sigaction action = {}, before = {};
  action.sa_sigaction = handle_bus_error;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, nullptr, &before);
  const bool is_ours = (before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction == handle_bus_error;
  if (is_ours) return;
  previous_action = before;
  ::sigaction(SIGBUS, &action, nullptr);
}

FileStamp stamp_of(const struct stat& status) {
  constexpr int64_t kNanoseconds = 1'000'000'000;
  return {.bytes = status.st_size,
          .modified = int64_t{status.st_mtim.tv_sec} * kNanoseconds + status.st_mtim.tv_nsec};
}

MappedRange* add_range(std::span<const std::byte> bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  auto* range = new MappedRange{.begin = begin, .end = begin + bytes.size()};
  range->next = first_range.load();
  while (!first_range.compare_exchange_weak(range->next, range)) {
  }
  return range;
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const FileDescriptor file = open_data_file(path);
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) throw io_error(path, "fstat", errno);
  device_ = status.st_dev;
  number_ = status.st_ino;
  stamp_ = stamp_of(status);
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return;
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (memory == MAP_FAILED) throw io_error(path, "mmap", errno);
  bytes_ = {static_cast<const std::byte*>(memory), size};
  range_ = add_range(bytes_);
  install_handler();
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  range_->end.store(0);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::expect(int64_t offset, int64_t bytes) const {
  const auto size = static_cast<int64_t>(bytes_.size());
  const int64_t page = ::sysconf(_SC_PAGESIZE), begin = offset / page * page;
  const int64_t end = std::min(offset + bytes, size);
  if (begin < 0 || begin >= end) return;
  // Only advice: a system that does not take it reads the bytes when they are used.
  ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, static_cast<size_t>(end - begin), MADV_WILLNEED);
}

void MappedFile::require_unchanged() const {
  struct stat now = {};
  if (::stat(path_.c_str(), &now) == 0 && !(stamp_of(now) == stamp_)) {
    throw Error(ExitCode::data,
                fmt::format("{}: changed while it was in use; leave it as it is during a run, and start the "
                            "same command again",
                            one_line(path_)));
  }
  require_intact();
}

void MappedFile::require_intact() const {
  if (range_ == nullptr) return;
  // Within the last page of a shorter file the system itself reads zeros, without a signal.
  struct stat now = {};
  const bool is_shorter = ::stat(path_.c_str(), &now) == 0 && now.st_dev == device_ &&
                          now.st_ino == number_ && static_cast<size_t>(now.st_size) < bytes_.size();
  if (is_shorter) {
    throw Error(ExitCode::io, fmt::format("{}: became shorter while it was read: it had {} bytes and has {}; "
                                          "restore it and start the same command again",
                                          one_line(path_), bytes_.size(), now.st_size));
  }
  if (!range_->is_damaged.load()) return;
  throw Error(ExitCode::io, fmt::format("{}: a part of it could not be read: it was shorter for a time, or "
                                        "its disk fails; start the same command again",
                                        one_line(path_)));
}

}  // namespace trainer
