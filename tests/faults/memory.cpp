// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

// A library that is loaded before a program (LD_PRELOAD), for memory that runs out. It counts every
// allocation, those of libraries and those before main too, so nothing here may allocate: the count is a
// number in a mapped file, which outlives any end of the process.
//   FAULT_MEMORY_COUNT: a file for the number of allocations so far, 8 bytes
//   FAULT_MEMORY_AT:    the number of the one that fails
//   FAULT_MEMORY_FULL:  from there on there is only the memory that is freed
//   FAULT_MEMORY_TRACE: a file for the stack of the first that failed, as backtrace_symbols_fd writes it

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* memory);
}

namespace {

void* map(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, length, protection, flags, fd, offset));
}

/// Libraries that this thread is opening. NVIDIA's crash there without memory, and no allocation fails.
thread_local int opening = 0;

class Allocations {
 public:
  /// Whether an allocation of this many bytes fails.
  bool fail(size_t bytes) {
    const long number = count_->fetch_add(1) + 1;
    if (at_ == 0 || number < at_) return false;
    if (number == at_) write_trace();
    if (number > at_ && (!full_ || take(bytes))) return false;
    if (opening > 0) return false;
    errno = ENOMEM;
    return true;
  }

  void freed(size_t bytes) {
    if (at_ > 0 && full_ && *count_ >= at_) free_ += static_cast<long>(bytes);
  }

 private:
  bool take(size_t bytes) {
    const auto wanted = static_cast<long>(bytes);
    long free = free_;
    while (free >= wanted) {
      if (free_.compare_exchange_weak(free, free - wanted)) return true;
    }
    return false;
  }

  static void write_trace() {
    const char* path = std::getenv("FAULT_MEMORY_TRACE");
    if (path == nullptr) return;
    const auto fd =
        static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0666));
    void* frames[64];
    ::backtrace_symbols_fd(frames, ::backtrace(frames, 64), fd);
    ::syscall(SYS_close, fd);
  }

  static std::atomic<long>* shared_count() {
    static std::atomic<long> own;
    const char* path = std::getenv("FAULT_MEMORY_COUNT");
    if (path == nullptr) return &own;
    const auto fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT, 0666));
    void* const page = ::syscall(SYS_ftruncate, fd, sizeof own) == 0
                           ? map(nullptr, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                           : MAP_FAILED;
    ::syscall(SYS_close, fd);
    if (page == MAP_FAILED) std::abort();
    return static_cast<std::atomic<long>*>(page);
  }

  static long number_at() {
    const char* at = std::getenv("FAULT_MEMORY_AT");
    return at == nullptr ? 0 : std::atol(at);
  }

  std::atomic<long>* const count_ = shared_count();
  const long at_ = number_at();
  const bool full_ = std::getenv("FAULT_MEMORY_FULL") != nullptr;
  std::atomic<long> free_ = 0;  ///< bytes, once memory is full
};

Allocations& allocations() {
  static Allocations all;
  return all;
}

}  // namespace

extern "C" {

void* malloc(size_t bytes) noexcept {
  return allocations().fail(bytes) ? nullptr : __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) noexcept {
  return allocations().fail(count * bytes) ? nullptr : __libc_calloc(count, bytes);
}

void* realloc(void* memory, size_t bytes) noexcept {
  const size_t before = ::malloc_usable_size(memory);
  if (allocations().fail(bytes)) return nullptr;
  allocations().freed(before);
  return __libc_realloc(memory, bytes);
}

void free(void* memory) noexcept {
  allocations().freed(::malloc_usable_size(memory));
  __libc_free(memory);
}

void* memalign(size_t alignment, size_t bytes) noexcept {
  return allocations().fail(bytes) ? nullptr : __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return memalign(alignment, bytes);
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  void* const found = memalign(alignment, bytes);
  if (found == nullptr) return ENOMEM;
  *memory = found;
  return 0;
}

void* mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) noexcept {
  return allocations().fail(length) ? MAP_FAILED : map(address, length, protection, flags, fd, offset);
}

void* mmap64(void* address, size_t length, int protection, int flags, int fd, off64_t offset) noexcept {
  return mmap(address, length, protection, flags, fd, offset);
}

int munmap(void* address, size_t length) noexcept {
  allocations().freed(length);
  return static_cast<int>(::syscall(SYS_munmap, address, length));
}

void* dlopen(const char* file, int flags) noexcept {
  static auto* const real = reinterpret_cast<void* (*)(const char*, int)>(::dlsym(RTLD_NEXT, "dlopen"));
  ++opening;
  void* const library = real(file, flags);
  --opening;
  return library;
}

}  // extern "C"
