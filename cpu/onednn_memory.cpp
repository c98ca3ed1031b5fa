// SPDX-License-Identifier: Apache-2.0
#include "cpu/onednn_memory.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <new>

// oneDNN gets memory for its objects from posix_memalign, and for generated code from mmap. If it gets none,
// release 2.6 works on with a null pointer: its `operator new` returns one without declaring that it may.
// Both functions are therefore replaced. When oneDNN calls, the first one throws, and the exception passes
// through oneDNN like one of its own `new`. The second one may not throw, as its caller is compiled for a
// function that does not. It has a reserve.

namespace trainer::cpu {
namespace {

/// The library that may be thrown through; null: none.
std::atomic<const void*> onednn_library = nullptr;

const void* library_of(const void* code) {
  Dl_info about{};
  return ::dladdr(code, &about) == 0 ? nullptr : about.dli_fbase;
}

[[maybe_unused]] bool is_onednn(const void* caller) {
  const void* const library = onednn_library;
  return library != nullptr && library == library_of(caller);
}

constexpr size_t kReserve = size_t{12} << 20;  // twice the need of general products of matrices with AVX2
std::atomic<void*> reserve = nullptr;

/// Whether there is more room now.
[[maybe_unused]] bool give_reserve() {
  void* const room = reserve.exchange(nullptr);
  return room != nullptr && ::munmap(room, kReserve) == 0;
}

/// The C library's function, or that of a tool that replaces it.
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

#ifndef TRAINER_SANITIZED  // sanitizers have their own functions in place of these

// Under other names in C++, since the C library's header declares that they do not throw.
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
