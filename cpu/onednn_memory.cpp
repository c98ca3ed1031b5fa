// SPDX-License-Identifier: Apache-2.0
#include "cpu/onednn_memory.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <new>

// oneDNN gets memory for its objects from posix_memalign, and for the code that it generates from mmap.
// Release 2.6 works on with a null pointer if it gets none: its `operator new` returns one without saying
// that it may. Both functions are therefore ours. When oneDNN calls, the first one throws, which passes
// oneDNN as an exception of one of its own `new` does. The second one may not, as its caller is compiled for
// a function that does not throw. It has a reserve.

namespace trainer::cpu {
namespace {

/// Where the library is that may be thrown through; null: none.
std::atomic<const void*> onednn_library = nullptr;

const void* library_of(const void* code) {
  Dl_info about{};
  return ::dladdr(code, &about) == 0 ? nullptr : about.dli_fbase;
}

[[maybe_unused]] bool is_onednn(const void* caller) {
  const void* const library = onednn_library;
  return library != nullptr && library == library_of(caller);
}

constexpr size_t kReserve = size_t{12} << 20;  // twice what general products of matrices take with AVX2
std::atomic<void*> reserve = nullptr;

/// Whether there is more room now.
[[maybe_unused]] bool give_reserve() {
  void* const room = reserve.exchange(nullptr);
  return room != nullptr && ::munmap(room, kReserve) == 0;
}

/// The C library's function, or that of a tool that stands before it.
template <class Function>
[[maybe_unused]] Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

void throw_where_onednn_gets_no_memory() {
  onednn_library = library_of(::dlsym(RTLD_DEFAULT, "dnnl_engine_create"));
}

void reserve_room_for_code() {
  if (reserve != nullptr) return;
  void* const room = ::mmap(nullptr, kReserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  reserve = room;
}

}  // namespace trainer::cpu

#ifndef TRAINER_SANITIZED  // sanitizers have functions of their own in the place of these

// Under other names in C++, since the C library's header promises that they throw nothing.
extern "C" {

int aligned_memory(void** memory, size_t alignment, size_t bytes) __asm__("posix_memalign");
void* mapped_memory(void* address, size_t bytes, int protection, int flags, int file,
                    off_t offset) __asm__("mmap");

int aligned_memory(void** memory, size_t alignment, size_t bytes) {
  static auto* const real = trainer::cpu::next<int(void**, size_t, size_t)>("posix_memalign");
  const int error = real(memory, alignment, bytes);
  if (error == ENOMEM && trainer::cpu::is_onednn(__builtin_return_address(0))) throw std::bad_alloc();
  return error;
}

void* mapped_memory(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  static auto* const real = trainer::cpu::next<void*(void*, size_t, int, int, int, off_t)>("mmap");
  void* const memory = real(address, bytes, protection, flags, file, offset);
  if (memory != MAP_FAILED || !trainer::cpu::is_onednn(__builtin_return_address(0))) return memory;
  return trainer::cpu::give_reserve() ? real(address, bytes, protection, flags, file, offset) : MAP_FAILED;
}

}  // extern "C"

#endif
