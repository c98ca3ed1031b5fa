// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/counting_new.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

extern "C" const char __executable_start, etext;  // addresses of the program's code, set by the linker

namespace {

std::atomic<int64_t> allocations{0};

bool is_own(const void* caller) {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  return address >= reinterpret_cast<uintptr_t>(&__executable_start) &&
         address < reinterpret_cast<uintptr_t>(&etext);
}

void* counted(std::size_t bytes, std::size_t alignment, const void* caller) {
  if (is_own(caller)) ++allocations;
  void* memory = nullptr;
  if (alignment <= alignof(std::max_align_t)) {
    memory = std::malloc(bytes);
  } else if (::posix_memalign(&memory, alignment, bytes) != 0) {
    memory = nullptr;
  }
  return memory;
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace trainer {
int64_t own_allocations() {
  return allocations;
}
}  // namespace trainer

void* operator new(std::size_t bytes) {
  return or_throw(counted(bytes, 1, __builtin_return_address(0)));
}
void* operator new[](std::size_t bytes) {
  return or_throw(counted(bytes, 1, __builtin_return_address(0)));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return or_throw(counted(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0)));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, 1, __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, 1, __builtin_return_address(0));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
